import {hkdfSync, randomBytes} from 'node:crypto';
import type {AddressInfo} from 'node:net';
import {hostname} from 'node:os';
import process from 'node:process';
import type {Knex} from 'knex';
import {createCatalog} from './accept/catalog.ts';
import {createAccept} from './accept/send.ts';
import {createAcceptWrite} from './accept/write.ts';
import {apiRoutes} from './api/api-routes.ts';
import {createAuth} from './api/auth.ts';
import {createCursors} from './api/cursor.ts';
import {createRateLimits} from './api/rate-limit.ts';
import {healthRoutes} from './api/routes/health.ts';
import {type Api, createApi} from './api/server.ts';
import {boundPublicUrl} from './config/derive.ts';
import type {Settings} from './config/settings.ts';
import {watchChanges} from './daemon/changes-watch.ts';
import {removeDaemonFile, writeDaemonFile} from './daemon/daemon-file.ts';
import {createEngine, type Engine} from './daemon/engine.ts';
import {createMetrics} from './daemon/metrics.ts';
import type {Held} from './daemon/open.ts';
import {watchStore} from './daemon/store-watch.ts';
import {startSweep} from './daemon/sweep.ts';
import {keyTask, messageTask} from './daemon/sweep-tasks.ts';
import {createWebhooks, type Webhooks} from './daemon/webhooks.ts';
import {capturedFolder, removeCaptured} from './deliver/capture.ts';
import {createLinks} from './links/links.ts';
import type {Log} from './log/log.ts';
import {createMailLog} from './log/maillog.ts';
import {systemClock as clock} from './mail/clock.ts';
import {createIdSource} from './mail/ids.ts';
import {storeTime} from './mail/time.ts';
import {createEngagementWrite} from './outcome/engagement.ts';
import {createErase} from './outcome/erase.ts';
import type {Outbox} from './outcome/outbox.ts';
import type {Recorded} from './outcome/record.ts';
import {createCollector} from './public/collector.ts';
import {publicRoutes} from './public/public-routes.ts';
import {createClockWatch} from './queue/clock-watch.ts';
import {createPresence} from './queue/presence.ts';
import {findKey} from './store/catalog.ts';
import {bumpGeneration, readGeneration} from './store/changes.ts';
import {bringForward, type Claimed} from './store/claims.ts';
import {isErased} from './store/erasures.ts';
import {noteKeyUse} from './store/key-use.ts';
import {readQueueSize} from './store/queue-size.ts';
import {createVault} from './store/sealed.ts';
import {bringDeliveriesForward} from './store/webhook-claims.ts';
import {countPending} from './store/webhook-deliveries.ts';
import {createGuard} from './webhook/guard.ts';
import type {Attempted} from './webhook/turn.ts';

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
>;

export type Daemon = {
	/** Where HTTP is served; null: this process serves none. */
	readonly http: string | null;
	/** Base of the links in mail. */
	readonly publicUrl: string;
	readonly reload: (settings: LiveSettings) => void;
	/** Takes nothing new, ends what is under way, gives the rest back to the queue, closes everything. */
	readonly stop: () => Promise<void>;
};

const clockWatchMs = 1000;

/** The composition root: everything is made here, started in order, and drained in reverse. */
export async function startDaemon({settings, version, held, log}: DaemonOptions): Promise<Daemon> {
	const {store, secrets, release} = held;
	const {logger} = log;
	const newId = createIdSource(clock);
	const vault = createVault(secrets);
	const mailLog = createMailLog(logger);
	const metrics = createMetrics({
		version,
		queueSize: () => readQueueSize(store.reader, storeTime(clock.now())),
		webhooksPending: () => countPending(store.reader),
	});
	let phase: 'starting' | 'running' | 'draining' = 'starting';
	let engine: Engine | null = null;
	let webhooks: Webhooks | null = null;
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
	const outbox: Outbox = {newId, onDue: endpointIds => webhooks?.due(endpointIds)};
	const storeFailing = () => storeWatch.failing() || engine?.scheduler.storeFailing === true;

	const catalog = createCatalog(store.reader);
	const limits = createRateLimits(clock, () => live.rateLimit);
	const auth = createAuth({
		findKey: hash => findKey(store.reader, hash),
		clock,
		limits,
		onUse: (id, at) => noteKeyUse(store.writer, id, at),
	});
	const keyRetention = () => live.idempotencyRetention;
	const accept = createAccept({
		catalog,
		reader: store.reader,
		writer: store.writer,
		clock,
		acceptWrite: createAcceptWrite({clock, newId, keyRetention}),
		keyRetention,
		onAccepted: destinations => engine?.scheduler.accepted(destinations),
	});

	const engagementWrite = createEngagementWrite(clock, outbox);
	const collector = createCollector({
		write: hit => store.writer.submit(engagementWrite, hit),
		isUnavailable: store.dialect.isUnavailable,
		onError: onStoreError,
		onLost: n => logger.warn({event: 'engagement_lost', n}, 'More opens and clicks came than could be written.'),
	});
	const uncapture = (copyIds: readonly string[]) => removeCaptured(capturedFolder(settings.dataDir), copyIds);

	/** What this process remembers of the store is read again. */
	function forget(): void {
		catalog.clear();
		auth.clear();
		engine?.forget();
	}

	async function change<Result>(work: (trx: Knex.Transaction) => Promise<Result>): Promise<Result> {
		const result = await store.writer.transaction(work);
		forget();
		return result;
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

	function createServer(): Api {
		return createApi({
			newId,
			version,
			trustProxy: settings.trustProxy,
			isUnavailable: store.dialect.isUnavailable,
			report: (request, error) => {
				logger.error({event: 'request_failed', request_id: request.id, route: request.routeOptions.url, err: error});
				if (store.dialect.isUnavailable(error) || store.dialect.isDamage(error)) {
					onStoreError(error);
				}
			},
			routes: [
				healthRoutes({notReady, metrics: metrics.text}),
				...apiRoutes({
					auth,
					reader: store.reader,
					change,
					writer: store.writer,
					tools: {clock, newId, random: randomBytes},
					vault,
					cursors: createCursors(cursorKey(secrets)),
					accept,
					limits,
					erase: createErase({
						writer: store.writer,
						clock,
						outbox,
						removeCaptured: uncapture,
					}),
					webhooks: {guard: createGuard(settings.webhookAllowCidrs), onDue: outbox.onDue},
					mayAccept: () => phase === 'running' && !storeFailing(),
				}),
				...publicRoutes({
					// Reads tokens only: where this process is reached does not matter.
					links: createLinks({keys: secrets, publicUrl: '', random: randomBytes}),
					reader: store.reader,
					writer: store.writer,
					collector,
					clock,
					outbox,
					random: randomBytes,
				}),
			],
		});
	}

	const api = settings.roles.includes('api') ? createServer() : null;
	const boot = newId('req');
	const presence = createPresence({
		store,
		node: {id: boot, host: hostname(), pid: process.pid},
		clock,
		onReleased: rescan,
		onError: onStoreError,
	});

	/** Others changed what is queued or due. */
	function rescan(): void {
		void engine?.scheduler.rescan().catch(onStoreError);
		void webhooks?.rescan().catch(onStoreError);
	}

	async function listen(): Promise<string | null> {
		const {host, port} = settings.httpListen;
		await api?.listen({host, port});
		const bound = api?.server.address() as AddressInfo | undefined;
		return bound ? boundPublicUrl(null, {host: bound.address, port: bound.port}) : null;
	}

	async function startWebhooks(): Promise<void> {
		webhooks = createWebhooks({
			settings,
			version,
			store,
			vault,
			boot,
			clock,
			onAttempted,
			onStoreError,
			onFault: error => logger.error({event: 'webhook_fault', err: error}),
			onCrash: reason => logger.error({event: 'worker_ended', reason}),
		});
		await webhooks.start();
	}

	async function startEngine(publicUrl: string): Promise<void> {
		engine = createEngine({
			settings,
			publicUrl,
			store,
			vault,
			keys: secrets,
			boot,
			newId,
			outbox,
			retry: () => ({schedule: live.retrySchedule, lifetime: live.queueLifetime}),
			clock,
			onRecorded,
			onLost: copy => void removeIfErased(copy).catch(onStoreError),
			onStoreError,
			onCrash: reason => logger.error({event: 'worker_ended', reason}),
		});
		await engine.start();
	}

	async function end(): Promise<void> {
		await Promise.all([api?.close(), engine?.drain(), webhooks?.drain()]);
		await collector.stop();
		// Claims that cannot be given back now are at the next start, or by another node.
		await presence.end().catch(onStoreError);
		await engine?.stop();
		storeWatch.stop();
	}

	let http: string | null;
	let publicUrl: string;
	try {
		http = await listen();
		publicUrl = settings.publicUrl ?? http ?? boundPublicUrl(null, settings.httpListen);
		if (settings.roles.includes('deliver') || settings.roles.includes('webhook')) {
			await presence.begin();
		}
		if (settings.roles.includes('webhook')) {
			await startWebhooks();
		}
		if (settings.roles.includes('deliver')) {
			await startEngine(publicUrl);
		}
	} catch (error) {
		await end();
		throw error;
	}

	function onRecorded({copy, result, verdict}: Recorded): void {
		const delayMs = Date.parse(result.at) - Date.parse(copy.created_at);
		const judged = {...result, outcome: verdict.outcome};
		metrics.attempted(judged, delayMs);
		mailLog.attempted({messageId: copy.message_id, recipient: copy.address, workspace: copy.workspace_id}, judged, {
			delayMs,
			attempt: verdict.attempts,
		});
	}

	/** A mail may be captured while its recipient is erased. */
	async function removeIfErased({id}: Claimed): Promise<void> {
		if (await isErased(store.reader, id)) {
			await uncapture([id]);
		}
	}

	function onAttempted(attempted: Attempted): void {
		const {delivery, end, after} = attempted;
		metrics.webhookAttempted(after.state, end.ms);
		mailLog.webhookAttempted({
			messageId: delivery.messageId,
			workspace: delivery.workspaceId,
			endpoint: delivery.endpointId,
			delivery: delivery.id,
			type: delivery.eventType,
			host: new URL(delivery.url).host,
			status: end.status,
			error: end.error,
			state: after.state,
			attempt: after.attempts,
			ms: end.ms,
		});
	}

	const changes = watchChanges({
		read: () => readGeneration(store.reader),
		onChange() {
			forget();
			rescan();
		},
		onError: onStoreError,
	});
	const clockStep = createClockWatch(clock);
	const clockTimer = setInterval(() => {
		if (clockStep() > 0) {
			void afterClockStep().catch(onStoreError);
		}
	}, clockWatchMs);

	/** Nothing may wait longer than the longest wait only because the clock was set back. */
	async function afterClockStep(): Promise<void> {
		const now = clock.now();
		const latest = storeTime(now + Math.max(...live.retrySchedule.waits));
		const latestPost = storeTime(now + settings.webhookBackoff);
		await store.writer.transaction(async trx => {
			await bringForward(trx, latest, storeTime(now));
			await bringDeliveriesForward(trx, latestPost, storeTime(now));
		});
		rescan();
	}

	const sweep = startSweep({
		tasks: [
			messageTask({store, clock, days: () => live.retentionDays, removeCaptured: uncapture}),
			keyTask({store, clock, retention: keyRetention}),
		],
		intervalMs: () => live.sweepInterval,
		clock,
		onError(error, task) {
			logger.error({event: 'sweep_failed', task, err: error});
			onStoreError(error);
		},
	});

	phase = 'running';
	mailLog.listening({http, inbound: null, version});
	if (engine && settings.delivery !== 'capture' && !publicUrl.startsWith('https:')) {
		const text =
			'mail programs offer one-click unsubscribe for https only, set MAILCTL_PUBLIC_URL to the https address';
		logger.warn({event: 'public_url_not_https', public_url: publicUrl}, text);
	}
	writeDaemonFile(settings.dataDir, {pid: process.pid, http, inbound: null, version});

	return {
		http,
		publicUrl,
		reload(next) {
			live = next;
			sweep.reschedule();
			log.setLevel(next.logLevel);
		},
		async stop() {
			phase = 'draining';
			clearInterval(clockTimer);
			changes.stop();
			await sweep.stop();
			await end();
			removeDaemonFile(settings.dataDir, process.pid);
			await release();
		},
	};
}

/** Cursors live for minutes: one key of their own, made from the current one, is enough. */
function cursorKey({keys, current}: Held['secrets']): Uint8Array {
	return new Uint8Array(hkdfSync('sha256', keys[current] as Uint8Array, '', 'cursor', 32));
}
