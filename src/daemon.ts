import process from 'node:process';
import {boundPublicUrl} from './config/derive.ts';
import type {Settings} from './config/settings.ts';
import {removeDaemonFile, writeDaemonFile} from './daemon/daemon-file.ts';
import {createFigures} from './daemon/figures.ts';
import {createHttp} from './daemon/http.ts';
import {createLiveRules} from './daemon/live-rules.ts';
import type {LiveSettings} from './daemon/live-settings.ts';
import type {Held} from './daemon/open.ts';
import {createRoles} from './daemon/roles.ts';
import {watchForStoreFaults} from './daemon/store-faults.ts';
import {createTelling} from './daemon/telling.ts';
import {startUpkeep} from './daemon/upkeep.ts';
import {warnAtStart} from './daemon/warnings.ts';
import {warnOfWishes} from './daemon/wishes.ts';
import {capturedFolder, removeCaptured} from './deliver/capture.ts';
import type {Log} from './log/log.ts';
import {createMailLog} from './log/maillog.ts';
import {systemClock as clock} from './mail/clock.ts';
import {createIdSource} from './mail/ids.ts';
import {createInfrastructureAlarm} from './reputation/alarm.ts';
import {readGeneration} from './store/changes.ts';
import {createVault} from './store/sealed.ts';

export type DaemonOptions = {
	readonly settings: Settings;
	readonly version: string;
	readonly held: Held;
	readonly log: Log;
};

export type Daemon = {
	/** Where HTTP is served; null: this process serves none. */
	readonly http: string | null;
	/** Where the listener for reports is, `host:port`; null: there is none. */
	readonly inbound: string | null;
	/** Base of the links in mail. */
	readonly publicUrl: string;
	readonly reload: (settings: LiveSettings) => void;
	/** Takes nothing new, ends what is under way, gives the rest back to the queue, closes everything. */
	readonly stop: () => Promise<void>;
};

/** The composition root: everything is made here, started in order, and drained in reverse. */
export async function startDaemon({settings, version, held, log}: DaemonOptions): Promise<Daemon> {
	const {store, secrets, release} = held;
	const {logger} = log;
	const newId = createIdSource(clock);
	const vault = createVault(secrets);
	const mailLog = createMailLog(logger);
	const infrastructure = createInfrastructureAlarm(clock);
	const metrics = createFigures({version, store, roles: () => roles, infrastructure, clock});
	const telling = createTelling({metrics, mailLog, infrastructure, clock});
	const rules = createLiveRules(settings, logger);
	const storeFaults = watchForStoreFaults({store, log});
	const onStoreError = storeFaults.noted;
	const storeFailing = () => storeFaults.failing() || roles.storeFailing();
	const uncapture = (copyIds: readonly string[]) => removeCaptured(capturedFolder(settings.dataDir), copyIds);
	let phase: 'starting' | 'running' | 'draining' = 'starting';
	let current: LiveSettings = settings;
	const live = () => current;

	/** What this process remembers of the store is read again. */
	function forget(): void {
		http.forget();
		roles.forget();
	}

	async function notReady(): Promise<string | null> {
		if (phase !== 'running') {
			return `The daemon is ${phase}.`;
		}
		try {
			await store.ping();
			return storeFailing() ? 'The store cannot be written.' : null;
		} catch {
			return 'The store does not answer.';
		}
	}

	const roles = createRoles({
		settings,
		live,
		version,
		store,
		keys: secrets,
		vault,
		rules,
		clock,
		newId,
		forget,
		uncapture,
		telling,
		metrics,
		mailLog,
		onStoreError,
		logger,
	});
	const http = createHttp({
		settings,
		live,
		version,
		store,
		secrets,
		vault,
		clock,
		newId,
		outbox: roles.outbox,
		forget,
		uncapture,
		metrics: metrics.text,
		notReady,
		mayAccept: () => phase === 'running' && !storeFailing(),
		onAccepted(lanes, mode, messages) {
			roles.accepted(lanes);
			metrics.accepted(mode, messages);
		},
		onAnswered: metrics.httpRequest,
		onStoreError,
		logger,
	});

	async function end(): Promise<void> {
		await Promise.all([http.close(), roles.drain()]);
		await roles.end();
		storeFaults.stop();
	}

	async function start() {
		try {
			const since = await readGeneration(store.reader);
			const base = await http.listen();
			const publicUrl = settings.publicUrl ?? base ?? boundPublicUrl(null, settings.httpListen);
			return {since, base, publicUrl, inbound: await roles.start(publicUrl)};
		} catch (error) {
			await end();
			throw error;
		}
	}

	const {since, base, publicUrl, inbound} = await start();
	const upkeep = startUpkeep({
		settings,
		live,
		store,
		clock,
		since,
		onChange() {
			forget();
			roles.rescan();
			roles.recheckDomains();
		},
		onMoved: roles.rescan,
		uncapture,
		onStoreError,
		logger,
	});

	phase = 'running';
	// Before the line: who reads it looks for the file.
	writeDaemonFile(settings.dataDir, {pid: process.pid, http: base, inbound, version, roles: settings.roles});
	mailLog.listening({http: base, inbound, version});
	warnAtStart({settings, publicUrl, logger});
	void warnOfWishes({settings, reader: store.reader, logger}).catch(onStoreError);

	return {
		http: base,
		inbound,
		publicUrl,
		reload(next) {
			current = next;
			upkeep.reschedule();
			log.setLevel(next.logLevel);
			roles.reload({renewed: rules.renew(next)});
		},
		async stop() {
			phase = 'draining';
			await upkeep.stop();
			await end();
			removeDaemonFile(settings.dataDir, process.pid);
			await release();
		},
	};
}
