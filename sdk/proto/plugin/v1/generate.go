// Package pluginpb is the generated form of plugin.proto: what every kind of plugin says about itself.
package pluginpb

//go:generate ../../generate.sh plugin.proto
