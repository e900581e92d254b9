import {execFile} from 'node:child_process';

/** Notifies systemd of the daemon's state (sd_notify(3)); does nothing where systemd did not ask. */
type Notify = {
	readonly ready: () => Promise<void>;
	/** One line that `systemctl status` shows. */
	readonly status: (text: string) => Promise<void>;
	/** To be followed by `ready` once done. */
	readonly reloading: () => Promise<void>;
	readonly stopping: () => Promise<void>;
	/** The watchdog's ping. */
	readonly alive: () => Promise<void>;
	/** How often to ping, milliseconds: half of what systemd allows; null: it does not watch. */
	readonly watchdogMs: number | null;
};

type NotifyInput = {
	/** NOTIFY_SOCKET and WATCHDOG_USEC are read; the child gets that socket and PATH, none of our secrets. */
	readonly env: Readonly<Record<string, string | undefined>>;
	readonly warn: (text: string) => void;
	readonly binary?: string;
};

const longestCall = 5000;

/** Node has no Unix datagram sockets, so each message is a run of `systemd-notify` (the unit says NotifyAccess=all). */
export function createNotify({env, warn, binary = 'systemd-notify'}: NotifyInput): Notify {
	let warned = false;
	const childEnv: NodeJS.ProcessEnv = {PATH: env.PATH, NOTIFY_SOCKET: env.NOTIFY_SOCKET};

	function send(assignment: string): Promise<void> {
		if (!env.NOTIFY_SOCKET) {
			return Promise.resolve();
		}

		return new Promise(resolve => {
			execFile(binary, [assignment], {env: childEnv, timeout: longestCall}, error => {
				if (error && !warned) {
					warned = true;
					warn(`systemd cannot be notified: ${binary} failed (${error.message.trim()})`);
				}

				resolve();
			});
		});
	}

	const watchdogMs = Math.floor(Number(env.WATCHDOG_USEC ?? 0) / 2000);
	return {
		ready: () => send('READY=1'),
		status: text => send(`STATUS=${text.replace(/\s+/g, ' ')}`),
		reloading: () => send('RELOADING=1'),
		stopping: () => send('STOPPING=1'),
		alive: () => send('WATCHDOG=1'),
		watchdogMs: env.NOTIFY_SOCKET && watchdogMs > 0 ? watchdogMs : null,
	};
}
