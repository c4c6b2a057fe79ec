/* SPDX-License-Identifier: Apache-2.0 */
/* The descriptor channel: what the host sends waits here until a call names it. */
#ifndef CHANNEL_H
#define CHANNEL_H

#include <stdint.h>
#include <time.h>

struct error;

enum { CHANNEL_MAX_FDS = 8 };

/* Starts to receive from fd. gone is called once, in another thread, when the host has closed its end. Returns 0 or -1. */
int channel_start(int fd, void (*gone)(void));

/* Waits until deadline for the message of token and takes its n descriptors, which become the caller's. Returns 0, or
 * the code of e. */
unsigned channel_take(uint64_t token, int fds[], int n, const struct timespec *deadline, struct error *e);

void close_all(const int fds[], int n);

#endif
