// Package config turns flags, environment, file and defaults, in this order of precedence, into typed and validated
// values. Load reports every problem it finds in one error list. The package starts no goroutine and imports nothing of
// this module.
//
// Every scalar setting has a dotted key, such as roce.target_ack_delay; its flag replaces dots and
// underscores by dashes (--roce-target-ack-delay), its environment variable is upper case behind
// GOSRPT_ with dots replaced by underscores (GOSRPT_ROCE_TARGET_ACK_DELAY). LUNs are list items with a name, so that no
// letter case is lost; flags or GOSRPT_LUNS replace the file's list as a whole. The same holds for a plugin's own settings in auth.config and
// ioctx.config: --auth-config key=value,key=value or GOSRPT_AUTH_CONFIG replaces the file's.
package config
