import type {Knex} from 'knex';
import type {Logger} from 'pino';
import {isLoopback, isWildcard} from '../config/derive.ts';
import {hostnameRemark} from '../config/rules.ts';
import type {Settings} from '../config/settings.ts';
import {type Clock, noticeableSkewMs, repeated} from '../kit/clock.ts';
import {dayMs, storeTime} from '../kit/time.ts';
import type {Acting} from '../mail/operator.ts';
import {Eraser} from '../outcome/erase.ts';
import {maxWaitOfAll} from '../queue/pace/choose-route.ts';
import type {OpenSources} from '../resources/domains/check-records.ts';
import type {SendingNames} from '../resources/domains/domain-records.ts';
import {type Domain, listDueDomains} from '../resources/domains/store.ts';
import {
	gracePeriodMs,
	nextCheck,
	queryDomainRecords,
	recordDomainCheck,
	takeDomain,
} from '../resources/domains/verify-domain.ts';
import {waitingDeliveries} from '../resources/webhooks/queue-store.ts';
import {listWorkspaces} from '../resources/workspaces/store.ts';
import {readGeneration} from '../store/changes.ts';
import {takeTime} from '../store/engine/dialect.ts';
import {bringForward, waitingRecipients} from '../store/held-claims.ts';
import type {Store} from '../store/store.ts';
import {type Context, toActing} from './context.ts';
import {createThrottle, type Observer} from './observer.ts';
import {
	allowanceTask,
	auditTask,
	dayTask,
	deletionTask,
	erasureTask,
	fileTask,
	inboundTask,
	keyTask,
	listenerTask,
	messageTask,
	paceTask,
	pauseTask,
	receivedTask,
	reputationTask,
	sealedTask,
	startSweep,
	tlsTask,
	userTask,
	workspaceTask,
} from './sweep.ts';

export type Upkeep = {
	/** Call this when the interval of the sweep has changed. */
	readonly reschedule: () => void;
	/** Resolves when all removals have stopped. */
	readonly stop: () => Promise<void>;
};

const removalIntervalMs = 2000;

type UpkeepOptions = {
	/** The store's change generation before anything was cached or queued. */
	readonly since: number;
	/** Another process changed cached or queued data. */
	readonly changed: () => void;
	/** Waiting mail is due sooner than before. */
	readonly moved: () => void;
	/** Removes the captured files of recipients created in a time range (milliseconds). */
	readonly removeCapturedOf: (from: number, to: number) => Promise<void>;
};

/** Starts the work besides mail: notices changes by others and steps of the clock, and removes old data. */
export function startUpkeep(context: Context, {since, changed, moved, removeCapturedOf}: UpkeepOptions): Upkeep {
	const {live, store, clock, removeCaptured, observer} = context;
	const {storeFailed, logger} = observer;
	const changes = watchChanges({since, read: () => readGeneration(store.reader), changed, failed: storeFailed});
	const clockSteps = setInterval(hastenAfterStep, clockCheckMs);
	const clockSkew = watchClockSkew(store, clock, logger);
	const clockWatch = new ClockWatch(clock);
	const sweep = startSweep({
		tasks: createTasks(context, removeCapturedOf),
		intervalMs: () => live().sweepInterval,
		clock,
		failed: sweepFailed,
	});
	// What people deleted or erased is removed soon, and neither waits for the other.
	const removals = [
		deletionTask({store, clock, removeCaptured}),
		erasureTask({reader: store.reader, eraser: new Eraser(context), clock}),
	].map(task => startSweep({tasks: [task], intervalMs: () => removalIntervalMs, clock, failed: sweepFailed}));

	function sweepFailed(error: unknown, task: string): void {
		logger.error({event: 'sweep_failed', task, err: error});
		storeFailed(error);
	}

	function hastenAfterStep(): void {
		if (clockWatch.step() > 0) {
			void hastenWaiting(context).then(moved).catch(storeFailed);
		}
	}

	return {
		reschedule: sweep.reschedule,
		async stop() {
			clearInterval(clockSteps);
			clearInterval(clockSkew);
			void changes.stop();
			await Promise.all([sweep, ...removals].map(({stop}) => stop()));
		},
	};
}

function createTasks(context: Context, removeCapturedOf: UpkeepOptions['removeCapturedOf']) {
	const {live, store, clock, removeCaptured} = context;
	const days = () => live().retentionDays;
	return [
		dayTask({store, clock}),
		messageTask({store, clock, days, removeCaptured, removeCapturedOf}),
		workspaceTask({store, clock, removeCaptured}),
		auditTask({store, clock, days}),
		pauseTask({store, clock}),
		keyTask({store, clock, retention: () => live().idempotencyRetention}),
		sealedTask({store, clock}),
		tlsTask({store, clock}),
		paceTask({store, clock}),
		inboundTask({store, clock}),
		receivedTask({store, clock, days: () => live().receivedRetentionDays}),
		reputationTask({store, clock}),
		userTask({store, clock}),
		allowanceTask({store, clock}),
		listenerTask({store, acting: toActing(context)}),
		// Last: it returns the space freed by the others.
		fileTask({store}),
	];
}

/** Limits every wait to its maximum, so that nothing waits longer because the clock was set back. */
async function hastenWaiting({settings, live, store, clock, destinations}: Context): Promise<void> {
	const now = clock.now();
	const maxWait = maxWaitOfAll(destinations(), live().retrySchedule);
	await store.writer.transaction(async trx => {
		await takeTime(trx);
		await bringForward(waitingRecipients(trx, storeTime(now)), storeTime(now + maxWait), storeTime(now));
		await bringForward(waitingDeliveries(trx), storeTime(now + settings.webhookBackoff), storeTime(now));
	});
}

const changeCheckMs = 500;

/** Notices within half a second what the CLI or another node changed. */
export function watchChanges({
	since,
	read,
	changed,
	failed,
}: {
	readonly since: number;
	/** Reads the store's change generation. */
	readonly read: () => Promise<number>;
	readonly changed: () => void;
	readonly failed: (error: unknown) => void;
}) {
	let known = since;

	async function check(): Promise<void> {
		const generation = await read();
		if (generation !== known) {
			changed();
		}
		known = generation;
	}

	const watch = repeated(changeCheckMs, check, failed);
	void watch.now();
	return watch;
}

const clockCheckMs = 1000;
/** Steps of the wall clock up to this size are ignored. */
const ignoredStepMs = 60_000;

/** Compares the wall clock with the monotonic clock. */
export class ClockWatch {
	readonly #clock: Clock;
	#offset: number;

	constructor(clock: Clock) {
		this.#clock = clock;
		this.#offset = clock.now() - clock.monotonic();
	}

	/** Returns by how many milliseconds the wall clock stepped back since the last call. Call it every second. */
	step(): number {
		const before = this.#offset;
		this.#offset = this.#clock.now() - this.#clock.monotonic();
		return before - this.#offset > ignoredStepMs ? before - this.#offset : 0;
	}
}

const skewCheckMs = 60_000;
const skewLogMs = 60 * 60_000;

/** Warns if this machine's clock, which the log and TLS use, differs from the database's, which mail uses. */
function watchClockSkew(store: Pick<Store, 'skew'>, clock: Pick<Clock, 'monotonic'>, logger: Logger): NodeJS.Timeout {
	const mayLog = createThrottle(skewLogMs, clock);
	function check(): void {
		const skew = store.skew();
		if (Math.abs(skew) > noticeableSkewMs && mayLog('')) {
			const text = 'The clock of this machine differs from the clock of the database: synchronize both with NTP.';
			logger.warn({event: 'clock_skew', ahead_seconds: Math.round(skew / 100) / 10}, text);
		}
	}
	check();
	return setInterval(check, skewCheckMs);
}

/** Logs at startup settings that are allowed but probably unintended. */
export function warnAtStart({
	settings,
	publicUrl,
	isInContainer,
	logger,
}: {
	readonly settings: Pick<
		Settings,
		'roles' | 'delivery' | 'webhookAllowCidrs' | 'adminListen' | 'httpListen' | 'publicUrl' | 'hostname'
	>;
	/** The base URL of links. */
	readonly publicUrl: string;
	/** Lets the warning say where the address applies. */
	readonly isInContainer: boolean;
	readonly logger: Logger;
}): void {
	const hasDeliverRole = settings.roles.includes('deliver');
	if (hasDeliverRole && settings.publicUrl === null && isWildcard(settings.httpListen.host)) {
		const location = isInContainer ? 'in this container' : 'on all addresses of the machine';
		const text =
			`links in messages point to ${publicUrl}, a guess because the server listens ${location}: ` +
			'set MAILCTL_PUBLIC_URL to the https address at which recipients reach it';
		logger.warn({event: 'public_url_guessed', public_url: publicUrl}, text);
	} else if (hasDeliverRole && settings.delivery !== 'capture' && !publicUrl.startsWith('https:')) {
		const text =
			'mail programs offer one-click unsubscribe only over https: set MAILCTL_PUBLIC_URL to the https address';
		logger.warn({event: 'public_url_not_https', public_url: publicUrl}, text);
	}
	const remark = hostnameRemark(settings);
	if (hasDeliverRole && remark !== null) {
		logger.warn({event: 'hostname_not_full', hostname: settings.hostname}, remark);
	}
	const admin = settings.adminListen === 'shared' ? settings.httpListen : settings.adminListen;
	if (settings.roles.includes('api') && admin !== null && !isLoopback(admin.host)) {
		const text = 'other machines can reach /metrics and /docs: protect MAILCTL_ADMIN_LISTEN with a firewall';
		logger.warn({event: 'admin_listener_open', host: admin.host}, text);
	}
	if (settings.roles.includes('webhook') && settings.webhookAllowCidrs.length > 0) {
		const text = 'webhooks may reach these non-public ranges: MAILCTL_WEBHOOK_ALLOW_CIDRS is meant for labs';
		logger.warn({event: 'webhook_ranges_allowed', ranges: settings.webhookAllowCidrs}, text);
	}
}

/** Describes the settings that a workspace requires but that are missing. */
function unmetSettings(
	{source_pool: pool, route}: {readonly source_pool: string | null; readonly route: string | null},
	{sourcePools, relays}: Pick<Settings, 'sourcePools' | 'relays'>,
): string[] {
	const isPoolMissing = pool !== null && sourcePools.every(({name}) => name !== pool);
	return [
		...(isPoolMissing
			? [`its source pool ${pool} is not in MAILCTL_SOURCE_POOLS: it sends from all addresses`]
			: []),
		...(route === 'relay' && relays.length === 0
			? ['its route is relay but MAILCTL_RELAY_URL is not set: its mail goes directly to mail servers']
			: []),
	];
}

/** Logs which settings workspaces require but are missing. */
export async function warnOfWorkspaces({
	settings,
	reader,
	logger,
}: Readonly<{settings: Settings; reader: Knex; logger: Logger}>): Promise<void> {
	for (const workspace of await listWorkspaces(reader)) {
		for (const problem of unmetSettings(workspace, settings)) {
			logger.warn({event: 'workspace_setting_unknown', workspace: workspace.id}, `${workspace.name}: ${problem}`);
		}
	}
}

type DomainChecksOptions = {
	readonly store: Pick<Store, 'reader' | 'writer'>;
	readonly names: SendingNames;
	readonly openSources: OpenSources;
	readonly acting: Acting;
	readonly observer: Pick<Observer, 'domainChecked' | 'storeFailed'>;
};

const domainCheckMs = 15_000;
const minuteMs = 60_000;
const maxConcurrent = 4;
/** Limits for how many others a new domain waits, however many are due. */
const maxPerBatch = 32;
const maxRead = 5000;

/**
 * Checks domains that are due in the background. Several nodes may do so: the first one to set the time of the check
 * takes the domain. If that node dies, the domain becomes due again.
 */
export class DomainChecks {
	readonly #options: DomainChecksOptions;
	readonly #writes = new Set<Promise<unknown>>();
	#isStopping = false;
	#currentCheck: Promise<void> | null = null;
	#shouldRunAgain = false;
	#timer: NodeJS.Timeout | undefined;

	constructor(options: DomainChecksOptions) {
		this.#options = options;
	}

	start(): void {
		this.#timer = setInterval(() => this.rescan(), domainCheckMs);
		this.rescan();
	}

	/** Other processes changed domains; one may be new. */
	rescan(): void {
		void this.checkDue().catch(this.#options.observer.storeFailed);
	}

	/** Checks what is due now. Resolves when done. Calls during a check cause another one. */
	async checkDue(): Promise<void> {
		if (this.#currentCheck !== null) {
			this.#shouldRunAgain = true;
			return await this.#currentCheck;
		}
		this.#currentCheck = this.#runRounds();
		try {
			await this.#currentCheck;
		} finally {
			this.#currentCheck = null;
		}
	}

	/** Resolves when all writes have ended. Unfinished lookups have no effect. */
	async stop(): Promise<void> {
		this.#isStopping = true;
		clearInterval(this.#timer);
		await Promise.allSettled(this.#writes);
	}

	async #runRounds(): Promise<void> {
		let hasMore: boolean;
		do {
			this.#shouldRunAgain = false;
			hasMore = await this.#checkBatch();
		} while ((hasMore || this.#shouldRunAgain) && !this.#isStopping);
	}

	/** Checks some of the due domains. Returns `false` if none were due or a check failed. */
	async #checkBatch(): Promise<boolean> {
		const due = (await this.#dueDomains()).slice(0, maxPerBatch);
		const remaining = due[Symbol.iterator]();
		let hasFailed = false;
		const worker = async () => {
			for (let next = remaining.next(); !next.done && !this.#isStopping && !hasFailed; next = remaining.next()) {
				await this.#check(next.value).catch(error => {
					hasFailed = true;
					this.#options.observer.storeFailed(error);
				});
			}
		};
		await Promise.all(Array.from({length: maxConcurrent}, worker));
		return due.length > 0 && !hasFailed;
	}

	async #dueDomains(): Promise<Domain[]> {
		const {store, acting} = this.#options;
		const now = acting.clock.now();
		const moments = {
			now: storeTime(now),
			minuteAgo: storeTime(now - minuteMs),
			dayAgo: storeTime(now - dayMs),
			eager: storeTime(now - gracePeriodMs - dayMs),
		};
		const rows = await listDueDomains(store.reader, moments, maxRead);
		return rows
			.filter(row => nextCheck(row, now) <= now)
			.map(({pending_at: _pendingAt, ...domain}): Domain => domain);
	}

	async #check(due: Domain): Promise<void> {
		const {store, names, openSources, acting, observer} = this.#options;
		const {clock} = acting;
		const domain = await this.#write(trx => takeDomain(trx, due, clock.now()));
		if (domain === undefined) {
			return;
		}
		const query = await queryDomainRecords(store.reader, domain, names, openSources, clock.now());
		const checked = await this.#write(trx => recordDomainCheck(trx, acting, query));
		if (checked !== undefined) {
			observer.domainChecked(checked);
		}
	}

	/** Returns `undefined` if the daemon is stopping. */
	async #write<Result>(work: (trx: Knex.Transaction) => Promise<Result>): Promise<Result | undefined> {
		if (this.#isStopping) {
			return undefined;
		}
		const write = this.#options.store.writer.transaction(work);
		this.#writes.add(write);
		try {
			return await write;
		} finally {
			this.#writes.delete(write);
		}
	}
}
