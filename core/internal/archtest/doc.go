// Package archtest enforces the import table. Its test is its only content.
package archtest
