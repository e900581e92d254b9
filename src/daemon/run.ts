import process from 'node:process';
import {ConfigError} from '../config/config-error.ts';
import {loadProcessSettings, processEnvironment} from '../config/process-env.ts';
import {reloadSettings} from '../config/reload.ts';
import type {Settings} from '../config/settings.ts';
import {type Daemon, startDaemon} from '../daemon.ts';
import {createLog} from '../log/log.ts';
import {keepHeapSmall} from './heap.ts';
import {createNotify} from './notify.ts';
import {type Held, openData} from './open.ts';

export type RunOptions = {
	readonly version: string;
	readonly envFile?: string | undefined;
	/** Open a data folder that belongs to another user. */
	readonly asRoot: boolean;
	/** Fills an empty store before the daemon starts; answers what to say once it listens, null: nothing was made. */
	readonly prepare: (held: Held, settings: Settings) => Promise<((daemon: Daemon) => void) | null>;
};

/** Runs the daemon until SIGTERM or SIGINT; resolves with the exit code. Throws ConfigError when it cannot start. */
export async function runDaemon({version, envFile, asRoot, prepare}: RunOptions): Promise<number> {
	keepHeapSmall();
	let settings = loadOrThrow(envFile);
	const log = createLog({level: settings.logLevel, format: settings.logFormat, colour: process.stdout.isTTY === true});
	const {logger} = log;
	const notify = createNotify({env: processEnvironment(), warn: text => logger.warn(text)});

	// Before anything is begun: who sees the daemon listen may stop it at once.
	const stopAsked = signalled();
	const held = await openData(settings, {asRoot});
	let daemon: Daemon;
	try {
		const welcome = await prepare(held, settings);
		daemon = await startDaemon({settings, version, held, log});
		welcome?.(daemon);
	} catch (error) {
		await held.release();
		throw asConfigError(error, settings);
	}
	process.on('SIGHUP', onHangup);
	await notify.ready();
	const watchdog = startWatchdog();

	function startWatchdog(): NodeJS.Timeout | undefined {
		const ping = () => held.store.ping().then(notify.alive, error => logger.error({event: 'store_failed', err: error}));
		return notify.watchdogMs === null ? undefined : setInterval(() => void ping(), notify.watchdogMs);
	}

	/** SIGHUP: what may change while running does; broken settings change nothing. */
	async function reload(): Promise<void> {
		await notify.reloading();
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

	function onHangup(): void {
		void reload();
	}

	async function drain(): Promise<number> {
		clearInterval(watchdog);
		logger.info({event: 'stopping'});
		void notify.stopping();
		// A second signal, or the limit, ends it at once: what was claimed is claimed again at the next start.
		const drained = await Promise.race([
			daemon.stop().then(() => true),
			signalled().then(() => false),
			after(settings.drainLimit).then(() => false),
		]);
		logger.info({event: 'stopped', drained});
		log.flush();
		if (!drained) {
			process.exit(0); // What is under way would keep the process alive.
		}
		return 0;
	}

	await stopAsked;
	return await drain();
}

function loadOrThrow(envFile: string | undefined): Settings {
	const loaded = loadProcessSettings(envFile);
	if (!loaded.ok) {
		throw new ConfigError(loaded.problems);
	}
	return loaded.settings;
}

/** Resolves at the next SIGTERM or SIGINT. */
function signalled(): Promise<void> {
	return new Promise(resolve => {
		const onSignal = () => {
			process.off('SIGTERM', onSignal);
			process.off('SIGINT', onSignal);
			resolve();
		};
		process.on('SIGTERM', onSignal);
		process.on('SIGINT', onSignal);
	});
}

function after(milliseconds: number): Promise<void> {
	return new Promise(resolve => setTimeout(resolve, milliseconds).unref());
}

/** What the operating system says of an address to listen on, in the operator's words. */
function asConfigError(error: unknown, {httpListen, inboundListen}: Settings): unknown {
	const {code, syscall, port: refused} = Object(error) as NodeJS.ErrnoException & {readonly port?: number};
	const inbound = inboundListen !== null && refused === inboundListen.port && refused !== httpListen.port;
	const {host, port} = inbound ? inboundListen : httpListen;
	const setting = inbound ? 'MAILCTL_INBOUND_LISTEN' : 'MAILCTL_HTTP_LISTEN';
	switch (syscall === 'listen' ? code : undefined) {
		case 'EADDRINUSE':
			return new ConfigError(
				[`${host}:${port} is in use by another program: stop it or set ${setting} to another port`],
				69,
			);
		case 'EADDRNOTAVAIL':
		case 'ENOTFOUND':
			return new ConfigError([`${host} is no address of this machine: set ${setting} to one that is`]);
		case 'EACCES':
			return new ConfigError([`port ${port} may not be opened by this user: set ${setting} to a port above 1023`]);
		default:
			return error;
	}
}
