package main

import (
	"strings"
	"testing"
)

const measured = `4k_rr_q1,1,1000.5,4,700,900
1m_r_q4,1,16,16,250000,300000
4k_rr_q1,2,1020.5,4.1,690,890
`

func TestRoundsOfAJobAreGathered(t *testing.T) {
	rs, err := parseResults(measured)
	if err != nil || len(rs) != 2 || rs[0].job != "4k_rr_q1" || len(rs[0].rounds) != 2 || len(rs[1].rounds) != 1 {
		t.Fatalf("results %+v, %v", rs, err)
	}
	median, spread := rs[0].median(iops)
	if median != 1010.5 || spread < 0.0197 || spread > 0.0199 {
		t.Errorf("median %v, spread %v, want 1010.5, 0.0198", median, spread)
	}
	if median, spread := rs[1].median(p50); median != 250000 || spread != 0 {
		t.Errorf("median %v, spread %v of one round", median, spread)
	}
}

func TestWhatIsNotAMeasurementIsAnError(t *testing.T) {
	for _, text := range []string{"4k,1,2,3,4\n", "4k,1,2,3,4,x\n", "\n", "4k,1,2,3,4,5,6\n"} {
		if rs, err := parseResults(text); err == nil {
			t.Errorf("%q: %+v, want an error", text, rs)
		}
	}
}

func TestTableHasTheRatioOfEachJob(t *testing.T) {
	kernel, _ := parseResults("a,1,100,1,10,20\nb,1,50,2,10,20\n")
	ours, _ := parseResults("b,1,25,1,20,40\na,1,150,1.5,6,9\n")
	var out strings.Builder
	if err := table(&out, []column{{"LIO", kernel}, {"ours", ours}}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if !strings.HasSuffix(lines[1], "  1.50") || !strings.HasSuffix(lines[2], "  0.50") {
		t.Errorf("table:\n%s", out.String())
	}
}

func TestTableRefusesAJobThatOneSideLacks(t *testing.T) {
	kernel, _ := parseResults("a,1,100,1,10,20\n")
	if err := table(&strings.Builder{}, []column{{"LIO", kernel}, {"ours", nil}}); err == nil {
		t.Error("no error")
	}
}
