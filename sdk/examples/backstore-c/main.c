/* SPDX-License-Identifier: Apache-2.0 */
/* A backstore plugin in C: the life of its process. sdk/PROTOCOL.md says what it must do. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "channel.h"
#include "control.h"

enum { MAJOR = 1, SHUTDOWN_SECONDS = 8 };

static pthread_mutex_t end_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t end_asked = PTHREAD_COND_INITIALIZER;
static bool ending;

static void end(void)
{
	pthread_mutex_lock(&end_lock);
	ending = true;
	pthread_cond_signal(&end_asked);
	pthread_mutex_unlock(&end_lock);
}

static void wait_for_end(void)
{
	pthread_mutex_lock(&end_lock);
	while (!ending)
		pthread_cond_wait(&end_asked, &end_lock);
	pthread_mutex_unlock(&end_lock);
}

static void die(const char *why)
{
	fprintf(stderr, "backstore-c: %s\n", why);
	exit(1);
}

/* Whether a list such as 1,2 has this plugin's major version. */
static bool speaks(const char *list)
{
	while (list && *list) {
		char *rest;
		if (strtol(list, &rest, 10) == MAJOR && rest != list && (*rest == ',' || *rest == 0))
			return true;
		list = strchr(list, ',');
		list += list != NULL;
	}
	return false;
}

static void check_environment(void)
{
	const char *cookie = getenv("GOSRPT_PLUGIN");
	if (!cookie || strcmp(cookie, "1c9f7a52") != 0)
		die("this is a plugin of gosrpt, which starts it; it does nothing by itself");
	if (!speaks(getenv("PLUGIN_PROTOCOL_VERSIONS")))
		die("the host does not speak version 1 of the plugin protocol");
}

/* The descriptor of the channel, or -1 if there is none. */
static int channel_fd(void)
{
	const char *text = getenv("GOSRPT_CHANNEL_FD");
	if (!text)
		return -1;
	char *rest;
	long fd = strtol(text, &rest, 10);
	if (*text == 0 || *rest || fd < 3 || fd > 1 << 20 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		die("GOSRPT_CHANNEL_FD names no descriptor");
	return fd;
}

static int listen_in(const char *dir, struct sockaddr_un *a)
{
	if (!dir || !*dir)
		die("the host names no PLUGIN_UNIX_SOCKET_DIR");
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	int n = snprintf(a->sun_path, sizeof a->sun_path, "%s/backstore", dir); /* the directory is this process's alone */
	if (n >= (int)sizeof a->sun_path)
		die("PLUGIN_UNIX_SOCKET_DIR is too long for a socket's path");
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)a, sizeof *a) < 0 || listen(fd, 16) < 0)
		die(strerror(errno));
	return fd;
}

int main(void)
{
	check_environment();
	/* A host that died leaves a broken stderr behind. And it is the host that ends its plugins, not who signals all of its group. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	int channel = channel_fd();
	control_init(channel >= 0);
	control_end = end;
	if (channel >= 0 && channel_start(channel, end) < 0)
		die("no thread for the descriptor channel");
	struct sockaddr_un address;
	int listener = listen_in(getenv("PLUGIN_UNIX_SOCKET_DIR"), &address);
	if (grpc_serve(listener, control_methods) < 0)
		die("no thread for the server");
	/* Without a line end in time the host would wait for it. */
	printf("1|%d|unix|%s|grpc|\n", MAJOR, address.sun_path);
	fflush(stdout);
	wait_for_end();
	control_shutdown(SHUTDOWN_SECONDS);
	unlink(address.sun_path);
	return 0;
}
