/* SPDX-License-Identifier: Apache-2.0 */
/* The services of the plugin: its control plane. */
#ifndef CONTROL_H
#define CONTROL_H

#include "grpc.h"

/* What the plugin serves, for grpc_serve. */
extern const struct grpc_method control_methods[];

/* Called when the host says that the process shall end. It does not block. */
extern void (*control_end)(void);

/* Prepares. Comes before anything else. */
void control_init(bool ring);

/* Refuses whatever comes, finishes what is under way, within seconds, and closes the stores. */
void control_shutdown(int seconds);

#endif
