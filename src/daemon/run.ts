import {execFile} from 'node:child_process';
import process from 'node:process';
import {isatty} from 'node:tty';
import type {Logger} from 'pino';
import {ConfigError} from '../config/config-error.ts';
import {loadProcessSettings, processEnvironment} from '../config/process-env.ts';
import {type LoadedSettings, reloadSettings, type Settings, showRunning} from '../config/settings.ts';
import {type Held, openData} from '../data-folder/open.ts';
import {keepHeapSmall} from '../kit/memory.ts';
import {createLog} from '../log/log.ts';
import {type Daemon, startDaemon} from './daemon.ts';
import {exitSeconds, killIfStuck} from './store-faults.ts';

export type RunOptions = {
	readonly version: string;
	/** That of the program that is installed now. */
	readonly installed: () => string;
	readonly envFile?: string | undefined;
	/** Open a data folder that belongs to another user. */
	readonly asRoot: boolean;
	/** Fills an empty store before the daemon starts; answers what to say once it listens, null: nothing was made. */
	readonly prepare: (held: Held, settings: Settings) => Promise<((daemon: Daemon, logger: Logger) => void) | null>;
};

const reloadRestMs = 250;
const failedStartMs = 1000;
const stopSignals: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT'];

/** Runs the daemon until SIGTERM or SIGINT, or until its terminal is closed; resolves with the exit code. Throws ConfigError when it cannot start. */
export async function runDaemon({version, installed, envFile, asRoot, prepare}: RunOptions): Promise<number> {
	keepHeapSmall();
	const started = loadOrThrow(envFile);
	let latest = started;
	let {settings} = started;
	const log = createLog({level: settings.logLevel, format: settings.logFormat, colour: process.stdout.isTTY === true});
	const {logger} = log;
	const notify = new Notify({env: processEnvironment(), warn: text => logger.warn(text)});

	// A closed terminal sends SIGHUP: no user is left there.
	const onTerminal = [0, 1, 2].some(fd => isatty(fd));
	// Before the start: a process that sees the daemon listen may stop it at once.
	const stopAsked = signalled(onTerminal ? [...stopSignals, 'SIGHUP'] : stopSignals);
	let running = false;
	let reloadAsked = false;
	let reloading = false;
	// Closing a terminal may bring several: the second one is no reason to hurry.
	process.on('SIGHUP', onTerminal ? () => undefined : onHangup);
	const held = await openData(settings, {asRoot});
	let daemon: Daemon;
	let welcome: Awaited<ReturnType<RunOptions['prepare']>>;
	try {
		welcome = await prepare(held, settings);
		daemon = await startDaemon({
			settings,
			version,
			installed,
			held,
			log,
			shown: () => showRunning(started, latest),
		});
	} catch (error) {
		await held.release();
		// Parts that had started may keep the process alive.
		void after(failedStartMs).then(() => process.exit());
		throw asConfigError(error, settings);
	}
	try {
		welcome?.(daemon, logger);
	} catch (error) {
		logger.error(
			{event: 'first_keys', file: null, err: error},
			'The first keys are lost, make others: mailctl key create',
		);
	}
	await notify.ready();
	running = true;
	if (reloadAsked) {
		onHangup();
	}
	const watchdog = startWatchdog();

	function startWatchdog(): NodeJS.Timeout | undefined {
		const ping = () =>
			held.store.ping().then(
				() => notify.alive(),
				error => logger.error({event: 'store_failed', err: error}),
			);
		return notify.watchdogMs === null ? undefined : setInterval(() => void ping(), notify.watchdogMs);
	}

	/** SIGHUP: what may change while running does; broken settings change nothing. */
	async function reload(): Promise<void> {
		await notify.reloading();
		if (!running) {
			return;
		}
		const loaded = loadProcessSettings(envFile);
		if (loaded.ok) {
			const {settings: next, changed, waiting} = reloadSettings(settings, loaded.settings);
			settings = next;
			latest = loaded;
			daemon.reload(next);
			logger.info({event: 'reloaded', changed, needs_restart: waiting});
		} else {
			logger.error({event: 'reload_refused', problems: loaded.problems});
		}
		await notify.ready();
	}

	/** At once, and then not again for a while: to read the settings takes many milliseconds, and signals cost nothing. */
	function onHangup(): void {
		reloadAsked = true;
		if (running && !reloading) {
			reloading = true;
			void reloadWhileAsked();
		}
	}

	async function reloadWhileAsked(): Promise<void> {
		while (reloadAsked && running) {
			reloadAsked = false;
			await reload();
			await after(reloadRestMs);
		}
		reloading = false;
	}

	async function leave(): Promise<void> {
		daemon.leave();
		await (settings.drainDelay > 0 && after(settings.drainDelay));
		await daemon.stop();
	}

	async function drain(): Promise<number> {
		clearInterval(watchdog);
		// What a reload starts after its part has stopped would keep the process alive.
		running = false;
		logger.info({event: 'stopping'});
		void notify.stopping();
		// A second signal, or the limit, ends it at once: what was claimed is claimed again at the next start.
		const drained = await Promise.race([
			leave().then(
				() => true,
				(error: unknown) => {
					logger.error({event: 'stop_failed', err: error});
					return false;
				},
			),
			signalled(stopSignals).then(() => false),
			after(settings.drainDelay + settings.drainLimit).then(() => false),
		]);
		logger.info({event: 'stopped', drained});
		killIfStuck(exitSeconds);
		if (!drained) {
			process.exit(0); // What is under way would keep the process alive.
		}
		return 0;
	}

	await stopAsked;
	return await drain();
}

function loadOrThrow(envFile: string | undefined): LoadedSettings & {ok: true} {
	const loaded = loadProcessSettings(envFile);
	if (!loaded.ok) {
		throw new ConfigError(loaded.problems);
	}
	return loaded;
}

/** Resolves at the next of these signals. */
function signalled(signals: readonly NodeJS.Signals[]): Promise<void> {
	return new Promise(resolve => {
		const onSignal = () => {
			for (const signal of signals) {
				process.off(signal, onSignal);
			}
			resolve();
		};
		for (const signal of signals) {
			process.on(signal, onSignal);
		}
	});
}

function after(milliseconds: number): Promise<void> {
	return new Promise(resolve => setTimeout(resolve, milliseconds).unref());
}

/** What the operating system says of an address to listen on, in the operator's words. */
function asConfigError(error: unknown, settings: Settings): unknown {
	const {httpListen, adminListen, httpsListen, httpRedirectListen, inboundListen, submissionListen} = settings;
	const {code, syscall, port: refused} = Object(error) as NodeJS.ErrnoException & {readonly port?: number};
	const others = [
		['MAILCTL_ADMIN_LISTEN', adminListen === 'shared' ? null : adminListen],
		['MAILCTL_HTTPS_LISTEN', httpsListen],
		['MAILCTL_HTTP_REDIRECT_LISTEN', httpRedirectListen],
		['MAILCTL_INBOUND_LISTEN', inboundListen],
		...submissionListen.map(listener => ['MAILCTL_SUBMISSION_LISTEN', listener] as const),
	] as const;
	const other = refused === httpListen.port ? undefined : others.find(([, listener]) => listener?.port === refused);
	const [setting, listener] = other ?? ['MAILCTL_HTTP_LISTEN', null];
	const {host, port} = listener ?? httpListen;
	switch (syscall === 'listen' ? code : undefined) {
		case 'EADDRINUSE':
			return new ConfigError(
				[`${host}:${port} is in use by another program: stop it or set ${setting} to another port`],
				69,
			);
		case 'EADDRNOTAVAIL':
		case 'ENOTFOUND':
			return new ConfigError([`${host} is not an address of this machine: set ${setting} to one that is`]);
		case 'EACCES':
			return new ConfigError([
				`port ${port} may not be opened by this user: run the service (docs/guide/systemd.md), or set ${setting} to a port above 1023`,
			]);
		default:
			return error;
	}
}

type NotifyInput = {
	/** NOTIFY_SOCKET and WATCHDOG_USEC are read; the child gets that socket and PATH, none of our secrets. */
	readonly env: Readonly<Record<string, string | undefined>>;
	readonly warn: (text: string) => void;
	readonly binary?: string;
};

const longestCall = 5000;

/**
 * Notifies systemd of the daemon's state (sd_notify(3)); does nothing where systemd did not ask. Node has no Unix datagram
 * sockets, so each message is a run of `systemd-notify` (the unit says NotifyAccess=all).
 */
export class Notify {
	/** How often to ping, milliseconds: half of what systemd allows; null: it does not watch. */
	readonly watchdogMs: number | null;
	readonly #input: NotifyInput;
	#warned = false;

	constructor(input: NotifyInput) {
		const watchdogMs = Math.floor(Number(input.env.WATCHDOG_USEC ?? 0) / 2000);
		this.watchdogMs = input.env.NOTIFY_SOCKET && watchdogMs > 0 ? watchdogMs : null;
		this.#input = input;
	}

	ready(): Promise<void> {
		return this.#send('READY=1');
	}

	/** To be followed by `ready` once done. */
	reloading(): Promise<void> {
		return this.#send('RELOADING=1');
	}

	stopping(): Promise<void> {
		return this.#send('STOPPING=1');
	}

	/** The watchdog's ping. */
	alive(): Promise<void> {
		return this.#send('WATCHDOG=1');
	}

	#send(assignment: string): Promise<void> {
		const {env, warn, binary = 'systemd-notify'} = this.#input;
		if (!env.NOTIFY_SOCKET) {
			return Promise.resolve();
		}
		const childEnv: NodeJS.ProcessEnv = {PATH: env.PATH, NOTIFY_SOCKET: env.NOTIFY_SOCKET};
		return new Promise(resolve => {
			execFile(binary, [assignment], {env: childEnv, timeout: longestCall}, error => {
				if (error && !this.#warned) {
					this.#warned = true;
					warn(`systemd cannot be notified: ${binary} failed (${error.message.trim()})`);
				}

				resolve();
			});
		});
	}
}
