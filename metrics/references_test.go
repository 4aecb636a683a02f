package metrics

import "testing"

func TestReferences_LIST4(t *testing.T) {
	m, reg := setUp(t)
	r := m.References()
	r.Faulty(FaultDuplicate, 2)
	r.Faulty(FaultDuplicate, 1)
	r.Faulty(FaultChain, 1)
	r.Faulty("not listed", 1)
	expect(t, reg, map[string]float64{
		`references_faults_total{reason="duplicate"}`: 3,
		`references_faults_total{reason="chain"}`:     1,
	})
}
