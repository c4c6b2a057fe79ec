package admin

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// The metrics' descriptions.
var (
	descSessions = prometheus.NewDesc("gosrpt_sessions", "I_T nexuses logged in.", nil, nil)
	descUptime   = prometheus.NewDesc("gosrpt_uptime_seconds", "Seconds since the daemon started.", nil, nil)
	descRefused  = prometheus.NewDesc("gosrpt_refused_logins_total", "Logins refused.", []string{"reason"}, nil)
	descCounter  = prometheus.NewDesc("gosrpt_events_total", "Events of the engine.", []string{"event"}, nil)
	descLUN      = prometheus.NewDesc("gosrpt_lun_events_total", "Events of a logical unit.", []string{"lun", "name", "event"}, nil)
	descDevice   = prometheus.NewDesc("gosrpt_device_events_total", "Events of an RDMA device.", []string{"device", "event"}, nil)
	descRunning  = prometheus.NewDesc("gosrpt_plugin_running", "1 if the plugin's process runs.", []string{"kind", "name"}, nil)
	descRestarts = prometheus.NewDesc("gosrpt_plugin_restarts_total", "Processes of a plugin after the first.", []string{"kind", "name"}, nil)
	descOldest   = prometheus.NewDesc("gosrpt_plugin_oldest_request_seconds", "Age of the oldest request that waits for a plugin.", []string{"kind", "name"}, nil)
	descReady    = prometheus.NewDesc("gosrpt_lun_ready", "1 if the logical unit's store is ready.", []string{"lun", "name"}, nil)
)

// collector turns a status into metrics at each scrape.
type collector struct{ src Source }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descSessions, descUptime, descRefused, descCounter, descLUN, descDevice, descReady, descRunning, descRestarts, descOldest} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.src.Status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counters := func(d *prometheus.Desc, m map[string]uint64, labels ...string) {
		for name, v := range m {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), append(labels[:len(labels):len(labels)], name)...)
		}
	}
	gauge(descSessions, float64(s.Sessions))
	gauge(descUptime, float64(s.UptimeSeconds))
	counters(descRefused, s.RefusedLogins)
	counters(descCounter, s.Counters)
	for _, l := range s.Luns {
		lun := strconv.FormatUint(uint64(l.Lun), 10)
		ready := 0.0
		if l.State == "ready" {
			ready = 1
		}
		gauge(descReady, ready, lun, l.Name)
		counters(descLUN, l.Counters, lun, l.Name)
	}
	for _, p := range s.Plugins {
		running := 0.0
		if p.State == "running" {
			running = 1
		}
		gauge(descRunning, running, p.Kind, p.Name)
		gauge(descOldest, float64(p.OldestMs)/1000, p.Kind, p.Name)
		ch <- prometheus.MustNewConstMetric(descRestarts, prometheus.CounterValue, float64(p.Restarts), p.Kind, p.Name)
	}
	for _, d := range s.Devices {
		counters(descDevice, d.Counters, d.Name)
	}
}
