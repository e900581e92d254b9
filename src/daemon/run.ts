import {execFile} from 'node:child_process';
import process from 'node:process';
import {isatty} from 'node:tty';
import type {Logger} from 'pino';
import {ConfigError} from '../config/config-error.ts';
import {loadProcessSettings, processEnvironment} from '../config/process-env.ts';
import {type LoadedSettings, reloadSettings, type Settings} from '../config/settings.ts';
import {minOpenFiles, neededOpenFiles, openFilesFix, readOpenFileLimit} from '../doctor/machine.ts';
import {keepHeapSmall} from '../kit/memory.ts';
import {explainDiskError} from '../store/data-folder/data-dir.ts';
import {type Held, openData, refuseSecondDaemon} from '../store/data-folder/open.ts';
import {checkPorts, configuredListeners, explainListenError} from './check-ports.ts';
import {type Daemon, startDaemon} from './daemon.ts';
import {createLog, type Log} from './log.ts';
import {exitSeconds, killIfStuck} from './store-faults.ts';

export type RunOptions = {
	readonly version: string;
	/** Returns the version of the installed program. */
	readonly installed: () => string;
	readonly envFile?: string | undefined;
	/** Whether to open a data folder that belongs to another user. */
	readonly asRoot: boolean;
	/** Fills an empty store before the daemon starts. The function it returns greets the operator afterwards. */
	readonly prepare: (held: Held, settings: Settings) => Promise<(daemon: Daemon, logger: Logger) => Promise<void>>;
};

/** Throws ConfigError if the daemon could hardly open any connections. */
export function checkOpenFiles(
	{maxSessions}: Pick<Settings, 'maxSessions'>,
	logger: Pick<Logger, 'warn'>,
	limit = readOpenFileLimit(),
): void {
	const needed = neededOpenFiles(maxSessions);
	if (limit !== null && limit < minOpenFiles) {
		const text = `this process may open only ${limit} files and sockets but needs at least ${minOpenFiles}`;
		throw new ConfigError([`${text}: ${openFilesFix(needed)}`]);
	}
	if (limit !== null && limit < needed) {
		const text = `At most ${limit} files and sockets can be open; ${needed} may be needed: ${openFilesFix(needed)}`;
		logger.warn({event: 'few_open_files', limit, needed}, text);
	}
}

const minReloadGapMs = 250;
const failedStartMs = 1000;
const stopSignals: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT'];

/**
 * Runs the daemon until SIGTERM, SIGINT or the end of its terminal, and returns the exit code. Throws ConfigError if it
 * cannot start.
 */
export async function runDaemon(options: RunOptions): Promise<number> {
	keepHeapSmall();
	const loaded = loadProcessSettings(options.envFile);
	if (!loaded.ok) {
		throw new ConfigError(loaded.problems);
	}
	const {settings} = loaded;
	const log = createLog({
		level: settings.logLevel,
		format: settings.logFormat,
		hasColors: process.stdout.isTTY === true,
	});
	const {logger} = log;
	const notify = new Notify({env: processEnvironment(), warn: text => logger.warn(text)});
	const reloads = new Reloads(settings, {envFile: options.envFile, logger, notify});

	// A terminal sends SIGHUP when it is closed, so the daemon stops instead of reloading.
	const hasTerminal = [0, 1, 2].some(fd => isatty(fd));
	// Installed before the start: a process that sees the daemon listen may stop it at once.
	const stopRequested = nextSignal(hasTerminal ? [...stopSignals, 'SIGHUP'] : stopSignals);
	// Closing a terminal may send several signals. The second one must not be taken as a request to stop at once.
	process.on('SIGHUP', hasTerminal ? () => undefined : () => reloads.request());
	checkOpenFiles(settings, logger);
	await checkListeners(settings);
	const held = await openData(settings, {asRoot: options.asRoot});
	const {daemon, greet} = await startPrepared(options, loaded, held, log);
	try {
		await greet(daemon, logger);
	} catch (error) {
		const text = 'The first keys could not be shown. The next start creates new ones, as does mailctl key create.';
		logger.error({event: 'first_keys', file: null, err: error}, text);
	}
	await notify.ready();
	reloads.start(daemon);
	const watchdog = startWatchdog(notify, held.store, logger);
	await stopRequested;
	clearInterval(watchdog);
	// A reload could restart a part that has stopped, which would keep the process alive.
	reloads.stop();
	logger.info({event: 'stopping'});
	void notify.stopping();
	const drained = await drain(daemon, reloads.settings, logger);
	logger.info({event: 'stopped', drained});
	killIfStuck(exitSeconds);
	if (!drained) {
		process.exit(0); // Work in progress would keep the process alive.
	}
	return 0;
}

/** Fills an empty store and starts the daemon. If that fails, releases the store and explains the error. */
async function startPrepared(
	{version, installed, prepare}: RunOptions,
	{settings, sources}: LoadedSettings & {ok: true},
	held: Held,
	log: Log,
) {
	try {
		const greet = await prepare(held, settings);
		const isReturnPathDomainSet = sources.returnPathDomain !== 'default';
		return {greet, daemon: await startDaemon({settings, version, installed, held, log, isReturnPathDomainSet})};
	} catch (error) {
		await held.release();
		// Parts that have started may keep the process alive.
		void delay(failedStartMs).then(() => process.exit());
		throw asConfigError(error, settings);
	}
}

function startWatchdog(notify: Notify, store: Held['store'], logger: Logger): NodeJS.Timeout | undefined {
	const ping = () =>
		store.ping().then(
			() => notify.alive(),
			error => logger.error({event: 'store_failed', err: error}),
		);
	return notify.watchdogMs === null ? undefined : setInterval(() => void ping(), notify.watchdogMs);
}

type ReloadOptions = {
	readonly envFile: string | undefined;
	readonly logger: Logger;
	readonly notify: Notify;
};

/** Applies the settings that can change at runtime, at each SIGHUP. */
class Reloads {
	readonly #options: ReloadOptions;
	#settings: Settings;
	/** `null` while the daemon is not running. */
	#daemon: Daemon | null = null;
	#isRequested = false;
	#isReloading = false;

	constructor(settings: Settings, options: ReloadOptions) {
		this.#settings = settings;
		this.#options = options;
	}

	get settings(): Settings {
		return this.#settings;
	}

	start(daemon: Daemon): void {
		this.#daemon = daemon;
		if (this.#isRequested) {
			this.request();
		}
	}

	stop(): void {
		this.#daemon = null;
	}

	/** Reloads at once, but then not again for a while: reading the settings is slow, and signals are cheap to send. */
	request(): void {
		this.#isRequested = true;
		if (this.#daemon !== null && !this.#isReloading) {
			this.#isReloading = true;
			void this.#reloadWhileRequested();
		}
	}

	async #reloadWhileRequested(): Promise<void> {
		while (this.#isRequested && this.#daemon !== null) {
			this.#isRequested = false;
			await this.#reload();
			await delay(minReloadGapMs);
		}
		this.#isReloading = false;
	}

	/** Invalid settings change nothing. */
	async #reload(): Promise<void> {
		const {envFile, logger, notify} = this.#options;
		await notify.reloading();
		if (this.#daemon === null) {
			return;
		}
		const loaded = loadProcessSettings(envFile);
		if (loaded.ok) {
			const {settings, changed, waiting} = reloadSettings(this.#settings, loaded.settings);
			this.#settings = settings;
			this.#daemon.reload(settings);
			logger.info({event: 'reloaded', changed, needs_restart: waiting});
		} else {
			logger.error({event: 'reload_refused', problems: loaded.problems});
		}
		await notify.ready();
	}
}

/**
 * Stops the daemon and returns whether it finished. A second signal, or the time limit, stops it at once. What was
 * claimed is claimed again at the next start.
 */
function drain(daemon: Daemon, {drainDelay, drainLimit}: Settings, logger: Logger): Promise<boolean> {
	async function finish(): Promise<void> {
		daemon.leave();
		await (drainDelay > 0 && delay(drainDelay));
		await daemon.stop();
	}

	return Promise.race([
		finish().then(
			() => true,
			(error: unknown) => {
				logger.error({event: 'stop_failed', err: error});
				return false;
			},
		),
		nextSignal(stopSignals).then(() => false),
		delay(drainDelay + drainLimit).then(() => false),
	]);
}

/** Resolves at the next one of these signals. */
function nextSignal(signals: readonly NodeJS.Signals[]): Promise<void> {
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

function delay(milliseconds: number): Promise<void> {
	return new Promise(resolve => setTimeout(resolve, milliseconds).unref());
}

/**
 * Checks every port of the daemon. A port may be in use by the daemon of the same data folder, and that folder's lock
 * knows more about the daemon than the port does.
 */
async function checkListeners(settings: Settings): Promise<void> {
	try {
		await checkPorts(configuredListeners(settings));
	} catch (error) {
		await refuseSecondDaemon(settings.dataDir);
		throw error;
	}
}

/** Explains a startup error to the operator if the settings or the disk are the cause. */
function asConfigError(error: unknown, settings: Settings): unknown {
	const {syscall, port} = Object(error) as NodeJS.ErrnoException & {readonly port?: number};
	// Another program may have taken a port since it was checked.
	const failed = configuredListeners(settings).find(listener => syscall === 'listen' && listener.port === port);
	return (failed && explainListenError(error, failed)) ?? explainDiskError(error, settings.dataDir);
}

type NotifyInput = {
	/** NOTIFY_SOCKET and WATCHDOG_USEC are read. The child process gets NOTIFY_SOCKET and PATH, but no secrets. */
	readonly env: Readonly<Record<string, string | undefined>>;
	readonly warn: (text: string) => void;
	readonly binary?: string;
};

const maxCallMs = 5000;

/**
 * Notifies systemd of the daemon's state (sd_notify(3)) if systemd requested it. Node has no Unix datagram sockets, so
 * each message is a run of `systemd-notify` (the unit has NotifyAccess=all).
 */
export class Notify {
	/** How often to ping, in milliseconds: half of what systemd allows, or `null` without a watchdog. */
	readonly watchdogMs: number | null;
	readonly #input: NotifyInput;
	#hasWarned = false;

	constructor(input: NotifyInput) {
		const watchdogMs = Math.floor(Number(input.env.WATCHDOG_USEC ?? 0) / 2000);
		this.watchdogMs = input.env.NOTIFY_SOCKET && watchdogMs > 0 ? watchdogMs : null;
		this.#input = input;
	}

	ready(): Promise<void> {
		return this.#send('READY=1');
	}

	/** Must be followed by `ready` when done. */
	reloading(): Promise<void> {
		return this.#send('RELOADING=1');
	}

	stopping(): Promise<void> {
		return this.#send('STOPPING=1');
	}

	/** Pings the watchdog. */
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
				if (error && !this.#hasWarned) {
					this.#hasWarned = true;
					warn(`systemd cannot be notified: ${binary} failed (${error.message.trim()})`);
				}

				resolve();
			});
		});
	}
}
