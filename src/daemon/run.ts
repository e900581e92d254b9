import {execFile} from 'node:child_process';
import process from 'node:process';
import {isatty} from 'node:tty';
import type {Logger} from 'pino';
import {ConfigError} from '../config/config-error.ts';
import {loadProcessSettings, processEnvironment} from '../config/process-env.ts';
import {type LoadedSettings, reloadSettings, type Settings} from '../config/settings.ts';
import {explainDiskError} from '../data-folder/data-dir.ts';
import {type Held, openData, refuseSecondDaemon} from '../data-folder/open.ts';
import {minOpenFiles, neededOpenFiles, openFilesFix, readOpenFileLimit} from '../doctor/machine.ts';
import {keepHeapSmall} from '../kit/memory.ts';
import {createLog} from '../log/log.ts';
import {checkPorts, configuredListeners, explainListenError} from './check-ports.ts';
import {type Daemon, startDaemon} from './daemon.ts';
import {exitSeconds, killIfStuck} from './store-faults.ts';

export type RunOptions = {
	readonly version: string;
	/** That of the program that is installed now. */
	readonly installed: () => string;
	readonly envFile?: string | undefined;
	/** Open a data folder that belongs to another user. */
	readonly asRoot: boolean;
	/** Fills an empty store before the daemon starts. What it returns greets the operator once the daemon listens. */
	readonly prepare: (held: Held, settings: Settings) => Promise<(daemon: Daemon, logger: Logger) => Promise<void>>;
};

/** Throws ConfigError where the daemon could hardly open a connection. */
export function checkOpenFiles(
	{maxSessions}: Pick<Settings, 'maxSessions'>,
	logger: Pick<Logger, 'warn'>,
	limit = readOpenFileLimit(),
): void {
	const needed = neededOpenFiles(maxSessions);
	if (limit !== null && limit < minOpenFiles) {
		throw new ConfigError([
			`this process may open ${limit} files and sockets, the least that works is ${minOpenFiles}: ${openFilesFix(needed)}`,
		]);
	}
	if (limit !== null && limit < needed) {
		const text = `At most ${limit} files and sockets can be open, ${needed} may be needed: ${openFilesFix(needed)}`;
		logger.warn({event: 'few_open_files', limit, needed}, text);
	}
}

const reloadRestMs = 250;
const failedStartMs = 1000;
const stopSignals: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT'];

/**
 * Runs the daemon until SIGTERM or SIGINT, or until its terminal is closed; resolves with the exit code. Throws
 * ConfigError when it cannot start.
 */
export async function runDaemon({version, installed, envFile, asRoot, prepare}: RunOptions): Promise<number> {
	keepHeapSmall();
	const started = loadOrThrow(envFile);
	let {settings} = started;
	const log = createLog({
		level: settings.logLevel,
		format: settings.logFormat,
		colour: process.stdout.isTTY === true,
	});
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
	checkOpenFiles(settings, logger);
	await checkAll(settings);
	const held = await openData(settings, {asRoot});
	let daemon: Daemon;
	let greet: Awaited<ReturnType<RunOptions['prepare']>>;
	try {
		greet = await prepare(held, settings);
		daemon = await startDaemon({
			settings,
			version,
			installed,
			held,
			log,
			returnPathChosen: started.sources.returnPathDomain !== 'default',
		});
	} catch (error) {
		await held.release();
		// Parts that had started may keep the process alive.
		void after(failedStartMs).then(() => process.exit());
		throw asConfigError(error, settings);
	}
	try {
		await greet(daemon, logger);
	} catch (error) {
		const text =
			'The first keys could not be shown. The next start creates others, and so does mailctl key create.';
		logger.error({event: 'first_keys', file: null, err: error}, text);
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
			daemon.reload(next);
			logger.info({event: 'reloaded', changed, needs_restart: waiting});
		} else {
			logger.error({event: 'reload_refused', problems: loaded.problems});
		}
		await notify.ready();
	}

	/**
	 * At once, and then not again for a while: to read the settings takes many milliseconds, and signals cost nothing.
	 */
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

/**
 * Checks every port of the daemon. A port that is taken may be held by the daemon of the same data folder, and the
 * folder's lock knows more about that daemon than the port does.
 */
async function checkAll(settings: Settings): Promise<void> {
	try {
		await checkPorts(configuredListeners(settings));
	} catch (error) {
		await refuseSecondDaemon(settings.dataDir);
		throw error;
	}
}

/** Explains an error of the start in the operator's words, where the settings or the disk are to blame. */
function asConfigError(error: unknown, settings: Settings): unknown {
	const {syscall, port} = Object(error) as NodeJS.ErrnoException & {readonly port?: number};
	// Another program may have taken a port since it was checked.
	const lost = configuredListeners(settings).find(listener => syscall === 'listen' && listener.port === port);
	return (lost && explainListenError(error, lost)) ?? explainDiskError(error, settings.dataDir);
}

type NotifyInput = {
	/** NOTIFY_SOCKET and WATCHDOG_USEC are read; the child gets that socket and PATH, none of our secrets. */
	readonly env: Readonly<Record<string, string | undefined>>;
	readonly warn: (text: string) => void;
	readonly binary?: string;
};

const maxCallMs = 5000;

/**
 * Notifies systemd of the daemon's state (sd_notify(3)); does nothing where systemd did not ask. Node has no Unix
 * datagram sockets, so each message is a run of `systemd-notify` (the unit says NotifyAccess=all).
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
			execFile(binary, [assignment], {env: childEnv, timeout: maxCallMs}, error => {
				if (error && !this.#warned) {
					this.#warned = true;
					warn(`systemd cannot be notified: ${binary} failed (${error.message.trim()})`);
				}

				resolve();
			});
		});
	}
}
