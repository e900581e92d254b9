import {hostname} from 'node:os';
import process from 'node:process';
import {sendingNames} from './admin/domain-records.ts';
import {boundPublicUrl} from './config/derive.ts';
import type {Settings} from './config/settings.ts';
import {watchChanges} from './daemon/changes-watch.ts';
import {watchClockSteps} from './daemon/clock-steps.ts';
import {removeDaemonFile, writeDaemonFile} from './daemon/daemon-file.ts';
import {createDomainChecks, type DomainChecks} from './daemon/domain-checks.ts';
import {createEngine, type Engine} from './daemon/engine.ts';
import {createHttp} from './daemon/http.ts';
import {createInbound, type Inbound} from './daemon/inbound.ts';
import {createLiveRules} from './daemon/live-rules.ts';
import {logSite} from './daemon/log-site.ts';
import {createMetrics} from './daemon/metrics.ts';
import type {Held} from './daemon/open.ts';
import {watchStore} from './daemon/store-watch.ts';
import {startSweep} from './daemon/sweep.ts';
import {inboundTask, keyTask, messageTask, paceTask, reputationTask, tlsTask} from './daemon/sweep-tasks.ts';
import {createTelling} from './daemon/telling.ts';
import {warnAtStart} from './daemon/warnings.ts';
import {createWebhooks, type Webhooks} from './daemon/webhooks.ts';
import {warnOfWishes} from './daemon/wishes.ts';
import {capturedFolder, removeCaptured} from './deliver/capture.ts';
import {openRecordSources} from './dns/record-sources.ts';
import type {Log} from './log/log.ts';
import {createMailLog} from './log/maillog.ts';
import {systemClock as clock} from './mail/clock.ts';
import {createIdSource} from './mail/ids.ts';
import {storeTime} from './mail/time.ts';
import type {Outbox} from './outcome/outbox.ts';
import {createPresence} from './queue/presence.ts';
import {createInfrastructureAlarm} from './reputation/alarm.ts';
import {type Guard, startGuard} from './reputation/guard.ts';
import {windowStarts} from './reputation/window.ts';
import {bumpGeneration, readGeneration} from './store/changes.ts';
import type {Claimed} from './store/claims.ts';
import {countDomainStates} from './store/domains.ts';
import {isErased} from './store/erasures.ts';
import {countUnread} from './store/inbound.ts';
import {readPaceFigures} from './store/pace-figures.ts';
import {readQueueSize} from './store/queue-size.ts';
import {readStandings} from './store/reputation.ts';
import {createVault} from './store/sealed.ts';
import {countPending} from './store/webhook-deliveries.ts';

export type DaemonOptions = {
	readonly settings: Settings;
	readonly version: string;
	readonly held: Held;
	readonly log: Log;
};

/** The settings that a running daemon obeys anew after SIGHUP. */
export type LiveSettings = Pick<
	Settings,
	| 'retrySchedule'
	| 'queueLifetime'
	| 'logLevel'
	| 'rateLimit'
	| 'idempotencyRetention'
	| 'retentionDays'
	| 'sweepInterval'
	| 'destinationsFile'
	| 'bounceRulesFile'
	| 'reputation'
>;

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
	const metrics = createMetrics({
		version,
		queueSize: () => readQueueSize(store.reader, storeTime(clock.now())),
		pace: () => readPaceFigures(store.reader, storeTime(clock.now())),
		sites: () => engine?.scheduler.sites() ?? [],
		webhooksPending: () => countPending(store.reader),
		domainStates: () => countDomainStates(store.reader),
		inbound: {
			unread: () => countUnread(store.reader),
			sessions: () => inbound?.sessions() ?? null,
			mailbox: () => inbound?.mailbox() ?? null,
		},
		standings: () => readStandings(store.reader, {starts: windowStarts(clock.now())}),
		refusals: infrastructure.current,
	});
	const telling = createTelling({metrics, mailLog, infrastructure, clock});
	let phase: 'starting' | 'running' | 'draining' = 'starting';
	let engine: Engine | null = null;
	let webhooks: Webhooks | null = null;
	let domainChecks: DomainChecks | null = null;
	let inbound: Inbound | null = null;
	let guard: Guard | null = null;
	let live: LiveSettings = settings;

	const storeWatch = watchStore({
		// A change of its own: an update that changes nothing writes nothing.
		probe: () => store.writer.transaction(bumpGeneration),
		isUnavailable: store.dialect.isUnavailable,
		onFailure(error) {
			logger.error({event: 'store_failed', err: error}, 'The store cannot be used; it is tried again.');
		},
		onRecovery() {
			logger.info({event: 'store_recovered'}, 'The store can be used again.');
		},
	});

	function onStoreError(error: unknown): void {
		if (store.dialect.isDamage(error)) {
			logger.fatal({event: 'store_damaged', err: error}, 'The store is damaged or its disk fails: stopping.');
			log.flush();
			process.exit(74);
		}
		storeWatch.failed(error);
	}

	/** Every event passes here on its way to the webhooks. */
	const outbox: Outbox = {
		newId,
		onDue: endpointIds => webhooks?.due(endpointIds),
		onCounted: workspaceIds => guard?.counted(workspaceIds),
	};
	const storeFailing = () => storeWatch.failing() || engine?.scheduler.storeFailing === true;

	const uncapture = (copyIds: readonly string[]) => removeCaptured(capturedFolder(settings.dataDir), copyIds);

	/** What this process remembers of the store is read again. */
	function forget(): void {
		http.forget();
		engine?.forget();
		inbound?.forget();
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

	const http = createHttp({
		settings,
		live: () => live,
		version,
		store,
		secrets,
		vault,
		clock,
		newId,
		outbox,
		forget,
		uncapture,
		metrics: metrics.text,
		notReady,
		mayAccept: () => phase === 'running' && !storeFailing(),
		onAccepted: lanes => engine?.scheduler.accepted(lanes),
		onStoreError,
		logger,
	});
	const boot = newId('req');
	const presence = createPresence({
		store,
		node: {id: boot, host: hostname(), pid: process.pid, roles: settings.roles},
		clock,
		onReleased: rescan,
		onError: onStoreError,
	});

	/** Others changed what is queued or due. */
	function rescan(): void {
		void engine?.scheduler.rescan();
		void webhooks?.rescan().catch(onStoreError);
	}

	async function startWebhooks(): Promise<void> {
		webhooks = createWebhooks({
			settings,
			version,
			store,
			vault,
			boot,
			clock,
			onAttempted: telling.posted,
			onStoreError,
			onFault: error => logger.error({event: 'webhook_fault', err: error}),
			onCrash: reason => logger.error({event: 'worker_ended', reason}),
		});
		await webhooks.start();
	}

	const rules = createLiveRules(settings, logger);

	async function startEngine(publicUrl: string): Promise<void> {
		engine = createEngine({
			settings,
			version,
			publicUrl,
			store,
			vault,
			keys: secrets,
			boot,
			newId,
			outbox,
			bounceRules: rules.current,
			retry: () => ({schedule: live.retrySchedule, lifetime: live.queueLifetime}),
			clock,
			onRecorded: telling.recorded,
			onLost: copy => void removeIfErased(copy).catch(onStoreError),
			onSite: (site, changes) => logSite(logger, site, changes),
			onWayError: telling.wayNotFound,
			onFault: telling.copyFault,
			onStoreError,
			onCrash: reason => logger.error({event: 'worker_ended', reason}),
			onPolicyFailure({domain, failure, kept, reason}) {
				logger.warn({event: 'mta_sts_failed', domain, failure, kept}, reason);
			},
		});
		await engine.start();
	}

	function startDomainChecks(): void {
		domainChecks = createDomainChecks({
			store,
			names: sendingNames(settings),
			openSources: () =>
				openRecordSources({servers: settings.dnsServers, allowPrivate: settings.allowPrivateMx, clock}),
			clock,
			onChecked: telling.domainChecked,
			onStoreError,
		});
		domainChecks.start();
	}

	async function startInbound(): Promise<string | null> {
		inbound = createInbound({
			settings,
			store,
			keys: secrets,
			boot,
			outbox,
			retentionDays: () => live.retentionDays,
			bounceRules: rules.current,
			clock,
			figures: metrics.inbound,
			mailLog,
			onStoreError,
			onCrash: reason => logger.error({event: 'worker_ended', reason}),
		});
		return await inbound.start();
	}

	function startReputationGuard(): void {
		guard = startGuard({
			store,
			limits: () => live.reputation,
			clock,
			onJudged(judged) {
				// Its sends are refused from now on, not when the change is noticed.
				if (judged.kind === 'paused') {
					forget();
				}
				telling.judged(judged);
			},
			onError: onStoreError,
		});
	}

	async function end(): Promise<void> {
		await Promise.all([http.close(), engine?.drain(), webhooks?.drain(), domainChecks?.stop(), inbound?.drain()]);
		await guard?.stop();
		// Claims that cannot be given back now are at the next start, or by another node.
		await presence.end().catch(onStoreError);
		await engine?.stop();
		storeWatch.stop();
	}

	let base: string | null;
	let inboundAddress: string | null = null;
	let publicUrl: string;
	let since: number;
	try {
		since = await readGeneration(store.reader);
		base = await http.listen();
		publicUrl = settings.publicUrl ?? base ?? boundPublicUrl(null, settings.httpListen);
		if (settings.roles.includes('deliver') || settings.roles.includes('webhook')) {
			await presence.begin();
		}
		if (settings.roles.includes('webhook')) {
			await startWebhooks();
		}
		if (settings.roles.includes('deliver')) {
			await startEngine(publicUrl);
		}
		if (settings.roles.includes('inbound')) {
			inboundAddress = await startInbound();
		}
		startReputationGuard();
		// Where nothing leaves the machine, no records are needed, and no DNS.
		if (settings.roles.includes('deliver') && settings.delivery !== 'capture') {
			startDomainChecks();
		}
	} catch (error) {
		await end();
		throw error;
	}

	/** A mail may be captured while its recipient is erased. */
	async function removeIfErased({id}: Claimed): Promise<void> {
		if (await isErased(store.reader, id)) {
			await uncapture([id]);
		}
	}

	const changes = watchChanges({
		since,
		read: () => readGeneration(store.reader),
		onChange() {
			forget();
			rescan();
			domainChecks?.rescan();
		},
		onError: onStoreError,
	});
	const clockSteps = watchClockSteps({
		store,
		clock,
		longestWait: () => Math.max(...live.retrySchedule.waits),
		longestPost: settings.webhookBackoff,
		onMoved: rescan,
		onError: onStoreError,
	});

	const sweep = startSweep({
		tasks: [
			messageTask({store, clock, days: () => live.retentionDays, removeCaptured: uncapture}),
			keyTask({store, clock, retention: () => live.idempotencyRetention}),
			tlsTask({store, clock}),
			paceTask({store, clock}),
			inboundTask({store, clock}),
			reputationTask({store, clock}),
		],
		intervalMs: () => live.sweepInterval,
		clock,
		onError(error, task) {
			logger.error({event: 'sweep_failed', task, err: error});
			onStoreError(error);
		},
	});

	phase = 'running';
	// Before the line: who reads it looks for the file.
	writeDaemonFile(settings.dataDir, {
		pid: process.pid,
		http: base,
		inbound: inboundAddress,
		version,
		roles: settings.roles,
	});
	mailLog.listening({http: base, inbound: inboundAddress, version});
	warnAtStart({settings, publicUrl, delivers: engine !== null, posts: webhooks !== null, logger});
	void warnOfWishes({settings, reader: store.reader, logger}).catch(onStoreError);

	return {
		http: base,
		inbound: inboundAddress,
		publicUrl,
		reload(next) {
			live = next;
			sweep.reschedule();
			log.setLevel(next.logLevel);
			if (rules.renew(next)) {
				engine?.renewBounceRules();
				inbound?.renewBounceRules();
			}
			try {
				inbound?.reload();
			} catch (error) {
				logger.error({event: 'certificate_refused', err: error}, 'The certificate that was read before still holds.');
			}
			const problems = engine?.reload(next) ?? [];
			if (problems.length > 0) {
				logger.error({event: 'destinations_refused', problems}, 'The destinations that were read before still hold.');
			}
		},
		async stop() {
			phase = 'draining';
			clockSteps.stop();
			changes.stop();
			await sweep.stop();
			await end();
			removeDaemonFile(settings.dataDir, process.pid);
			await release();
		},
	};
}
