// Package accesslist is the authoriser on a YAML file that lists who may log in. Whoever is not listed is refused.
//
//	hosts:
//	  - name: web1                       # for the operator
//	    initiators:                      # one is enough to be this host
//	      - port_id:0x11223344556677880002c90300aabbcc
//	      - gid:fe80:0000:0000:0000:0002:c903:00aa:bbcc
//	      - address:10.0.0.7             # or a network: address:10.0.0.0/24
//	    luns:                            # what it sees; or luns: all
//	      - {lun: 0, name: disk0}
//	      - {lun: 1, name: disk1, read_only: true}
//	    read_only: false                 # true: no write to any of them
//	    channels: 8                      # at most; 0 or absent: the target's own limit
//	    queue_depth: 64                  # the same
//
// A port identifier is written as 32 hexadecimal digits or eight groups of four, with or without 0x, in any letter case. A
// GID the same, or as an IPv6 address. The first host in the file that has one of a login's names decides; the same name in
// two hosts is an error, and so is every key that is not above.
//
// # Changes
//
// The file is looked at four times a second and when the process gets SIGHUP, however it is replaced: written in place, renamed
// over, removed and made again, or behind symbolic links. It is read when it has not changed between two looks. A list
// that cannot be read or has an error changes nothing: the one before stays in force, and the error is logged once.
package accesslist
