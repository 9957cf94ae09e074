package postgres

// Needs are the rights that running takes, each as a table and a right.
func Needs() (all [][2]string) {
	for _, n := range needs() {
		all = append(all, [2]string{n.table, n.right})
	}
	return all
}
