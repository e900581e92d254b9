import {existsSync} from 'node:fs';
import process from 'node:process';
import {linkBase} from '../config/derive.ts';
import type {LiveSettings, Settings} from '../config/settings.ts';
import {capturedFolder, removeCaptured, removeCapturedOf} from '../deliver/local-delivery.ts';
import {storeTime} from '../kit/time.ts';
import {createIdSource} from '../mail/ids.ts';
import {InfrastructureAlarm} from '../outcome/infrastructure-alarm.ts';
import type {EventWriter} from '../outcome/outbox.ts';
import {windowStarts} from '../outcome/reputation-findings.ts';
import {listCertificates} from '../resources/certificates/store.ts';
import {countDomainStates} from '../resources/domains/store.ts';
import {countUnread} from '../resources/received/inbound-store.ts';
import {countPending} from '../resources/webhooks/queue-store.ts';
import {listBlocklistings} from '../store/blocklists.ts';
import {readGeneration} from '../store/changes.ts';
import {removeDaemonFile, writeDaemonFile} from '../store/data-folder/daemon-file.ts';
import type {Held} from '../store/data-folder/open.ts';
import {readQueueSize} from '../store/queue/queue-summary.ts';
import {readPaceFigures} from '../store/queue/sites.ts';
import {readStatuses} from '../store/reputation.ts';
import {createAlertWatch} from './alerts.ts';
import {Certificates} from './certificates.ts';
import type {Context} from './context.ts';
import {CurrentSettings} from './current-settings.ts';
import {Http} from './http.ts';
import {createIntake, createSubmission, type Intake} from './intake.ts';
import {watchLiveCopies} from './live-copies.ts';
import type {Log} from './log.ts';
import {Metrics} from './metrics.ts';
import {createObserver} from './observer.ts';
import {Roles} from './roles.ts';
import {StoreWatch} from './store-watch.ts';
import {dayTask} from './sweep.ts';
import {startUpkeep, type Upkeep, warnAtStart, warnOfWorkspaces} from './upkeep.ts';

type DaemonOptions = {
	readonly settings: Settings;
	readonly version: string;
	/** Returns the version of the installed program. If absent, that is the running version. */
	readonly installed?: () => string;
	readonly held: Held;
	readonly log: Log;
	/** Whether MAILCTL_RETURN_PATH_DOMAIN is set. */
	readonly isReturnPathDomainSet: boolean;
};

export type Daemon = {
	/** The URL at which HTTP is served, or `null` if this process serves none. */
	readonly http: string | null;
	/** The URL of the operator's pages and metrics, or `null`. */
	readonly admin: string | null;
	/** Where HTTPS is served without a proxy, as `host:port`, or `null`. */
	readonly https: string | null;
	/** Where plain HTTP is redirected, as `host:port`, or `null`. */
	readonly redirect: string | null;
	/** Where the listener for reports is, as `host:port`, or `null`. */
	readonly inbound: string | null;
	/** Where programs submit mail, as `host:port` separated by commas, or `null`. */
	readonly submission: string | null;
	/** The base URL of links in messages. */
	readonly publicUrl: string;
	readonly reload: (settings: LiveSettings) => void;
	/** Reports that the daemon is not ready, so that load balancers avoid it, but continues to work. */
	readonly leave: () => void;
	/** Accepts nothing new, finishes what is under way, releases the rest to the queue and closes everything. */
	readonly stop: () => Promise<void>;
};

/** Where the daemon listens, and the generation of the store at the start. */
type Started = Omit<Daemon, 'reload' | 'leave' | 'stop'> & {readonly since: Awaited<ReturnType<typeof readGeneration>>};

/** What runs only after everything has started. */
type Background = {
	readonly upkeep: Upkeep;
	readonly alerts: ReturnType<typeof createAlertWatch>;
	readonly liveCopies: ReturnType<typeof watchLiveCopies> | null;
};

/** Starts the daemon. Rejects if a part cannot start, after the others have stopped. */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
	const parts = new DaemonParts(options);
	const {since, ...addresses} = await parts.start();
	const background = parts.startBackground(since, addresses);
	return {
		...addresses,
		reload: settings => parts.reload(settings, background.upkeep),
		leave: () => parts.leave(),
		stop: () => parts.stop(background),
	};
}

/**
 * The composition root: creates every part of the daemon, starts them in order and drains them in reverse. This folder
 * connects the others to settings, sockets, threads and timers, and does the upkeep of the store. It relies on the
 * settings and an open store, and never decides what happens to a message.
 */
class DaemonParts {
	readonly #options: DaemonOptions;
	readonly #current: CurrentSettings;
	readonly #watch: StoreWatch;
	readonly #context: Context;
	readonly #roles: Roles;
	readonly #intake: Intake;
	readonly #submission: ReturnType<typeof createSubmission>;
	readonly #http: Http;
	#phase: 'starting' | 'running' | 'leaving' | 'draining' = 'starting';

	constructor(options: DaemonOptions) {
		const {settings, held, log, isReturnPathDomainSet} = options;
		const {clock} = held.store;
		const newId = createIdSource(clock);
		const boot = newId('req');
		const eventWriter: EventWriter = {
			newId,
			onDue: endpointIds => this.#roles.due(endpointIds),
			onCounted: workspaceIds => this.#roles.counted(workspaceIds),
		};
		this.#options = options;
		this.#current = new CurrentSettings(settings, log.logger);
		const live = () => this.#current.live;
		this.#watch = new StoreWatch({settings, live, held, boot, eventWriter, logger: log.logger});
		this.#context = this.#createContext({clock, newId, boot, eventWriter, live});
		this.#roles = new Roles(this.#context);
		this.#intake = createIntake(this.#context, {
			onWriting: queues => this.#roles.arriving(queues),
			onAccepted: (mode, messages, queues) => {
				this.#context.observer.metrics.accepted.inc({mode}, messages);
				this.#roles.accepted(queues);
			},
		});
		this.#submission = createSubmission(this.#context, this.#intake);
		this.#http = new Http(this.#context, this.#intake, {
			process: {
				startedAt: clock.now(),
				returnPathChosen: isReturnPathDomainSet,
				storeSizes: this.#watch.sizes.past,
				sites: () => this.#roles.sites(),
			},
			notReady: () => this.#notReady(),
			wakeReading: () => this.#roles.wakeReading(),
		});
	}

	/** Starts everything that serves others. If a part cannot start, stops the others. */
	async start(): Promise<Started> {
		const {settings} = this.#options;
		const {store, clock, certificates} = this.#context;
		try {
			await this.#watch.space.check();
			// Today's partition must exist before today's first message.
			await dayTask({store, clock}).begin()();
			const since = await readGeneration(store.reader);
			await certificates.open();
			const {http, ...otherAddresses} = await this.#http.listen();
			const publicUrl = linkBase(settings, http);
			const inbound = await this.#roles.start(publicUrl);
			const submission = await this.#submission.listen();
			return {since, http, ...otherAddresses, publicUrl, inbound, submission};
		} catch (error) {
			await this.#end();
			throw error;
		}
	}

	/** Starts what works in the background, and reports that the daemon is ready. */
	startBackground(since: Started['since'], {publicUrl, ...addresses}: Omit<Started, 'since'>): Background {
		const {settings, version, installed = () => version} = this.#options;
		const {store, certificates, observer} = this.#context;
		const {logger, storeFailed} = observer;
		const upkeep = this.#startUpkeep(since);
		const alerts = createAlertWatch(this.#context, {
			installed,
			publicUrl,
			mailboxUp: () => this.#roles.mailbox()?.up ?? null,
		});
		this.#watch.writing.start();
		const liveCopies = this.#watchLiveCopies();
		certificates.start();
		this.#phase = 'running';
		// Written before the line is logged, because readers of the line look for the file.
		writeDaemonFile(settings.dataDir, {pid: process.pid, ...addresses, version, roles: settings.roles});
		logger.info({event: 'listening', ...addresses, version});
		warnAtStart({settings, publicUrl, isInContainer: existsSync('/.dockerenv'), logger});
		void warnOfWorkspaces({settings, reader: store.reader, logger}).catch(storeFailed);
		alerts.start();
		return {upkeep, alerts, liveCopies};
	}

	reload(settings: LiveSettings, upkeep: Upkeep): void {
		this.#current.set(settings);
		this.#watch.writing.reload();
		upkeep.reschedule();
		this.#options.log.setLevel(settings.logLevel);
		this.#current.renewDestinations();
		this.#roles.reload({
			hasNewBounceRules: this.#current.renewBounceRules(),
			certificates: this.#submission.reload,
		});
	}

	leave(): void {
		this.#phase = 'leaving';
	}

	async stop({upkeep, alerts, liveCopies}: Background): Promise<void> {
		const {settings, held} = this.#options;
		this.#phase = 'draining';
		await Promise.all([upkeep.stop(), alerts.stop(), liveCopies?.stop()]);
		await this.#end();
		removeDaemonFile(settings.dataDir, process.pid);
		await held.release();
	}

	async #end(): Promise<void> {
		await Promise.all([
			this.#context.certificates.stop(),
			this.#http.close(),
			this.#submission.close(),
			this.#roles.drain(),
		]);
		await this.#roles.end();
		await this.#watch.stop();
	}

	#createContext(identity: Pick<Context, 'clock' | 'newId' | 'boot' | 'eventWriter' | 'live'>): Context {
		const {settings, version, held, log} = this.#options;
		const {store, space, failed: storeFailed} = this.#watch;
		const {vault} = held;
		const {clock, newId} = identity;
		const infrastructure = new InfrastructureAlarm(clock);
		const metrics = this.#createMetrics(infrastructure);
		const observer = createObserver({metrics, logger: log.logger, infrastructure, storeFailed, clock});
		return {
			...identity,
			settings,
			bounceRules: () => this.#current.bounceRules,
			destinations: () => this.#current.destinations,
			version,
			store,
			keys: held.secrets,
			vault,
			hasSpace: space.hasEnough,
			mayAccept: () =>
				(this.#phase === 'running' || this.#phase === 'leaving') &&
				!this.#isStoreFailing() &&
				space.hasEnough(),
			forget: () => this.#forget(),
			removeCaptured: recipientIds => removeCaptured(capturedFolder(settings.dataDir), recipientIds),
			observer,
			refusals: () => infrastructure.current(),
			certificates: new Certificates({settings, store, vault, clock, newId, version, observer}),
		};
	}

	#createMetrics(infrastructure: InfrastructureAlarm): Metrics {
		const {store, space} = this.#watch;
		const {reader, clock} = store;
		const now = () => storeTime(clock.now());
		return new Metrics({
			version: this.#options.version,
			skew: store.skew,
			queueSize: () => readQueueSize(reader, now()),
			pace: () => readPaceFigures(reader, now()),
			sites: () => this.#roles.sites(),
			statuses: () => readStatuses(reader, {starts: windowStarts(clock.now())}),
			refusals: () => infrastructure.current(),
			webhooksPending: () => countPending(reader),
			domainStates: () => countDomainStates(reader),
			blocklistings: () => listBlocklistings(reader, clock.now()),
			certificates: () => listCertificates(reader),
			unread: () => countUnread(reader),
			inboundSessions: () => this.#roles.inboundSessions(),
			submissionSessions: () => this.#submission.sessions(),
			mailbox: () => this.#roles.mailbox(),
			logDropped: this.#options.log.dropped,
			freeDisk: space.free,
			walBytes: () => store.wal?.bytes() ?? null,
		});
	}

	#startUpkeep(since: Started['since']): Upkeep {
		return startUpkeep(this.#context, {
			since,
			changed: () => {
				this.#forget();
				this.#roles.rescan();
				this.#roles.recheckDomains();
			},
			moved: () => this.#roles.rescan(),
			removeCapturedOf: (from, to) => removeCapturedOf(capturedFolder(this.#options.settings.dataDir), from, to),
		});
	}

	#watchLiveCopies(): Background['liveCopies'] {
		const {settings, store, clock, live, observer} = this.#context;
		if (settings.databaseUrl !== null) {
			return null;
		}
		return watchLiveCopies({
			settings,
			store,
			clock,
			minFreeDisk: () => live().minFreeDisk,
			hold: this.#watch.writing.hold,
			logger: observer.logger,
		});
	}

	#forget(): void {
		this.#intake.forget();
		this.#roles.forget();
		this.#http.forget();
		this.#context.certificates.forget();
	}

	/** Returns why no mail can be accepted, or `null`. */
	async #notReady(): Promise<string | null> {
		if (this.#phase !== 'running') {
			return `The daemon is ${this.#phase}.`;
		}
		try {
			await this.#context.store.ping();
			if (this.#isStoreFailing()) {
				return 'The store cannot be written.';
			}
			return this.#context.hasSpace() ? null : 'The disk has less free space than MAILCTL_MIN_FREE_DISK.';
		} catch {
			return 'The store does not respond.';
		}
	}

	#isStoreFailing(): boolean {
		return this.#watch.isFailing() || this.#roles.isStoreFailing();
	}
}
