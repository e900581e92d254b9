import {existsSync} from 'node:fs';
import process from 'node:process';
import {linkBase} from '../config/derive.ts';
import type {LiveSettings, Settings} from '../config/settings.ts';
import type {RunningSetting} from '../config/show.ts';
import {removeDaemonFile, writeDaemonFile} from '../data-folder/daemon-file.ts';
import {freeBytes} from '../data-folder/data-dir.ts';
import type {Held} from '../data-folder/open.ts';
import {capturedFolder, removeCaptured, removeCapturedOf} from '../deliver/capture.ts';
import type {Log} from '../log/log.ts';
import {createMailLog} from '../log/maillog.ts';
import {createIdSource} from '../mail/ids.ts';
import {createInfrastructureAlarm} from '../reputation/alarm.ts';
import {readGeneration} from '../store/changes.ts';
import {readStoreSize} from '../store/engine/dialect.ts';
import {watchFreeSpace, watchStoreSize, watchWal} from './disk-space.ts';
import {createFigures} from './figures.ts';
import {createHttp} from './http.ts';
import {createIntake} from './intake.ts';
import {createLiveRules} from './live-rules.ts';
import {actingOf} from './parts.ts';
import {createRoles} from './roles.ts';
import {watchForStoreFaults} from './store-faults.ts';
import {createSubmission} from './submission.ts';
import {dayTask} from './sweep.ts';
import {createTelling} from './telling.ts';
import {startUpkeep} from './upkeep.ts';
import {warnAtStart, warnOfWorkspaces} from './warnings.ts';
import {createWriting} from './writing.ts';

export type DaemonOptions = {
	readonly settings: Settings;
	readonly version: string;
	readonly held: Held;
	readonly log: Log;
	/** The settings as people read them. */
	readonly shown: () => readonly RunningSetting[];
};

export type Daemon = {
	/** Where HTTP is served; null: this process serves none. */
	readonly http: string | null;
	/** Where the operator's pages and figures are; null: nowhere. */
	readonly admin: string | null;
	/** Where the listener for reports is, `host:port`; null: there is none. */
	readonly inbound: string | null;
	/** Where programs submit mail, `host:port` between commas; null: nowhere. */
	readonly submission: string | null;
	/** Base of the links in mail. */
	readonly publicUrl: string;
	readonly reload: (settings: LiveSettings) => void;
	/** Says from now on that it is not ready, and goes on: load balancers look elsewhere. */
	readonly leave: () => void;
	/** Takes nothing new, ends what is under way, gives the rest back to the queue, closes everything. */
	readonly stop: () => Promise<void>;
};

/** The composition root: everything is made here, started in order, and drained in reverse. */
export async function startDaemon({settings, version, held, log, shown}: DaemonOptions): Promise<Daemon> {
	const {secrets, vault, release} = held;
	const {logger} = log;
	const {clock} = held.store;
	const newId = createIdSource(clock);
	const boot = newId('req');
	let current: LiveSettings = settings;
	const live = () => current;
	const writing = createWriting({settings, live, store: held.store, boot, eventWriter: () => roles.eventWriter});
	const {writer} = writing;
	const store = {...held.store, writer, ...(held.store.agreeing === held.store.writer && {agreeing: writer})};
	const mailLog = createMailLog(logger);
	const infrastructure = createInfrastructureAlarm(clock);
	const metrics = createFigures({
		version,
		store,
		roles: () => roles,
		submissionSessions: () => submission.sessions(),
		infrastructure,
		logDropped: log.dropped,
		freeDisk: () => space.free(),
		walBytes: () => store.wal?.bytes() ?? null,
		clock,
	});
	const telling = createTelling({metrics, mailLog, infrastructure, clock});
	const rules = createLiveRules(settings, logger);
	const storeFaults = watchForStoreFaults({store, logger});
	const onStoreError = storeFaults.noted;
	const storeFailing = () => storeFaults.failing() || roles.storeFailing();
	const uncapture = (recipientIds: readonly string[]) => removeCaptured(capturedFolder(settings.dataDir), recipientIds);
	let phase: 'starting' | 'running' | 'leaving' | 'draining' = 'starting';

	/** What this process remembers of the store is read again. */
	function forget(): void {
		intake.forget();
		roles.forget();
	}

	const space = watchFreeSpace({
		free: () => freeBytes(settings.dataDir),
		least: () => live().minFreeDisk,
		onChange({enough, free}) {
			const line = {event: enough ? 'disk_recovered' : 'disk_low', free, least: live().minFreeDisk};
			if (enough) {
				logger.info(line, 'There is room for new mail again.');
			} else {
				logger.error(
					line,
					'The disk of the data folder has less free space than MAILCTL_MIN_FREE_DISK: no new mail is accepted.',
				);
			}
		},
	});

	const wal =
		store.wal &&
		watchWal({
			wal: store.wal,
			onLarge(bytes) {
				logger.warn(
					{event: 'wal_large', bytes},
					'The write-ahead log of the store keeps growing, probably because a program holds a long read transaction: see mailctl doctor.',
				);
			},
			onEmptied(bytes) {
				logger.info({event: 'wal_emptied', bytes}, 'The write-ahead log of the store was emptied.');
			},
			onError: onStoreError,
		});

	const sizes = watchStoreSize({read: () => readStoreSize(store.reader), now: clock.now, onError: onStoreError});

	async function notReady(): Promise<string | null> {
		if (phase !== 'running') {
			return `The daemon is ${phase}.`;
		}
		try {
			await store.ping();
			if (storeFailing()) {
				return 'The store cannot be written.';
			}
			return space.enough() ? null : 'The disk has less free space than MAILCTL_MIN_FREE_DISK.';
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
		boot,
		forget,
		uncapture,
		hasRoom: space.enough,
		telling,
		metrics,
		mailLog,
		onStoreError,
		logger,
	});
	const intake = createIntake({
		live,
		store,
		clock,
		newId,
		onWriting: queues => roles.arriving(queues),
		onAccepted(mode, messages, queues) {
			metrics.accepted(mode, messages);
			roles.accepted(queues);
		},
	});
	const mayAccept = () => (phase === 'running' || phase === 'leaving') && !storeFailing() && space.enough();
	const submission = createSubmission({
		settings,
		intake,
		store,
		clock,
		newId,
		mayAccept,
		hasRoom: space.enough,
		metrics,
		mailLog,
		onStoreError,
	});
	const http = createHttp({
		settings,
		live,
		intake,
		version,
		bounceRules: rules.current,
		process: {
			startedAt: clock.now(),
			shown,
			recentLines: log.recent,
			storeSizes: sizes.past,
			sites: () => roles.sites(),
		},
		store,
		secrets,
		vault,
		clock,
		newId,
		eventWriter: roles.eventWriter,
		forget,
		uncapture,
		metrics: metrics.text,
		notReady,
		mayAccept,
		onAnswered: metrics.httpRequest,
		onStoreError,
		logger,
	});

	async function end(): Promise<void> {
		await Promise.all([http.close(), submission.close(), roles.drain()]);
		await roles.end();
		await wal?.stop();
		await writing.stop();
		storeFaults.stop();
		space.stop();
		sizes.stop();
	}

	async function start() {
		try {
			await space.look();
			// Before mail of today.
			await dayTask({store, clock}).begin()();
			const since = await readGeneration(store.reader);
			const {http: base, admin} = await http.listen();
			const publicUrl = linkBase(settings, base);
			const inbound = await roles.start(publicUrl);
			return {since, http: base, admin, publicUrl, inbound, submission: await submission.listen()};
		} catch (error) {
			await end();
			throw error;
		}
	}

	const {since, publicUrl, ...at} = await start();
	const upkeep = startUpkeep({
		settings,
		live,
		store,
		clock,
		acting: actingOf({clock, newId}),
		since,
		onChange() {
			forget();
			roles.rescan();
			roles.recheckDomains();
		},
		onMoved: roles.rescan,
		uncapture,
		uncaptureOf: (from, to) => removeCapturedOf(capturedFolder(settings.dataDir), from, to),
		onStoreError,
		logger,
	});

	writing.start();
	phase = 'running';
	// Before the line: who reads it looks for the file.
	writeDaemonFile(settings.dataDir, {pid: process.pid, ...at, version, roles: settings.roles});
	mailLog.listening({...at, version});
	warnAtStart({settings, publicUrl, inContainer: existsSync('/.dockerenv'), logger});
	void warnOfWorkspaces({settings, reader: store.reader, logger}).catch(onStoreError);

	return {
		...at,
		publicUrl,
		reload(next) {
			current = next;
			writing.reload();
			upkeep.reschedule();
			log.setLevel(next.logLevel);
			roles.reload({renewed: rules.renew(next), certificates: submission.reload});
		},
		leave() {
			phase = 'leaving';
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
