import type {Knex} from 'knex';
import type {Logger} from 'pino';
import {isLoopback, isWildcard} from '../config/derive.ts';
import {hostnameRemark} from '../config/rules.ts';
import type {Settings} from '../config/settings.ts';
import {type Clock, noticeableSkewMs} from '../kit/clock.ts';
import {storeTime} from '../kit/time.ts';
import {longestWaitOfAll} from '../pace/destinations.ts';
import {readGeneration} from '../store/changes.ts';
import {takeTime} from '../store/engine/dialect.ts';
import {usualWal, type WriteAheadLog} from '../store/engine/sqlite.ts';
import {bringForward, waitingRecipients} from '../store/held-claims.ts';
import type {Store} from '../store/store.ts';
import {waitingDeliveries} from '../store/webhook-queue.ts';
import {listWorkspaces} from '../store/workspaces.ts';
import {actingOf, type Context} from './context.ts';
import {createThrottle} from './observer.ts';
import {
	auditTask,
	dayTask,
	fileTask,
	inboundTask,
	keyTask,
	listenerTask,
	messageTask,
	paceTask,
	reputationTask,
	startSweep,
	tlsTask,
	userTask,
} from './sweep.ts';

type Upkeep = {
	/** The interval of the sweep has changed. */
	readonly reschedule: () => void;
	/** Resolves when nothing is being removed any more. */
	readonly stop: () => Promise<void>;
};

/** What goes on beside the mail: changes of others and steps of the clock are noticed, what is old is swept away. */
export function startUpkeep(
	context: Context,
	{
		since,
		changed,
		moved,
		removeCapturedOf,
	}: {
		/** The store's change generation before anything was cached or queued. */
		readonly since: number;
		/** Another process changed cached or queued data. */
		readonly changed: () => void;
		/** Waiting mail is due sooner than it was. */
		readonly moved: () => void;
		/** Removes the captured mails of recipients that were made in a range of time, milliseconds. */
		readonly removeCapturedOf: (from: number, to: number) => Promise<void>;
	},
): Upkeep {
	const {live, store, clock, removeCaptured, observer} = context;
	const {storeFailed, logger} = observer;
	const changes = watchChanges({since, read: () => readGeneration(store.reader), changed, failed: storeFailed});
	const clockSteps = setInterval(moveAfterStep, watchMs);
	const clockSkew = watchClockSkew(store, clock, logger);
	const stepOf = createClockWatch(clock);
	const days = () => live().retentionDays;
	const sweep = startSweep({
		tasks: [
			dayTask({store, clock}),
			messageTask({store, clock, days, removeCaptured, removeCapturedOf}),
			auditTask({store, clock, days}),
			keyTask({store, clock, retention: () => live().idempotencyRetention}),
			tlsTask({store, clock}),
			paceTask({store, clock}),
			inboundTask({store, clock}),
			reputationTask({store, clock}),
			userTask({store, clock}),
			listenerTask({store, acting: actingOf(context)}),
			// Last: it gives back what the others freed.
			fileTask({store}),
		],
		intervalMs: () => live().sweepInterval,
		clock,
		failed(error, task) {
			logger.error({event: 'sweep_failed', task, err: error});
			storeFailed(error);
		},
	});

	/** A clock that is set back must not make anything wait longer than its longest wait. */
	async function moveForward(): Promise<void> {
		const now = clock.now();
		const longestWait = longestWaitOfAll(context.destinations(), live().retrySchedule);
		await store.writer.transaction(async trx => {
			await takeTime(trx);
			await bringForward(waitingRecipients(trx), storeTime(now + longestWait), storeTime(now));
			await bringForward(waitingDeliveries(trx), storeTime(now + context.settings.webhookBackoff), storeTime(now));
		});
		moved();
	}

	function moveAfterStep(): void {
		if (stepOf() > 0) {
			void moveForward().catch(storeFailed);
		}
	}

	return {
		reschedule: sweep.reschedule,
		async stop() {
			clearInterval(clockSteps);
			clearInterval(clockSkew);
			changes.stop();
			await sweep.stop();
		},
	};
}

const periodMs = 500;

/** Notices within half a second what the CLI or another node changed. */
export function watchChanges({
	since,
	read,
	changed,
	failed,
}: {
	readonly since: number;
	/** The store's change generation. */
	readonly read: () => Promise<number>;
	readonly changed: () => void;
	readonly failed: (error: unknown) => void;
}): {readonly stop: () => void} {
	let known = since;
	let asking = false;

	async function look(): Promise<void> {
		if (asking) {
			return;
		}
		asking = true;
		try {
			const generation = await read();
			if (generation !== known) {
				changed();
			}
			known = generation;
		} catch (error) {
			failed(error);
		} finally {
			asking = false;
		}
	}

	void look();
	const timer = setInterval(() => void look(), periodMs);
	return {stop: () => clearInterval(timer)};
}

const watchMs = 1000;
/** Smaller steps of the wall clock are ignored, milliseconds. */
const tolerance = 60_000;

/**
 * Compares the wall clock with the monotonic one. Called about once a second; answers by how many milliseconds the wall
 * clock stepped back since the last call, 0 if it did not.
 */
export function createClockWatch(clock: Clock): () => number {
	let offset = clock.now() - clock.monotonic();
	return () => {
		const before = offset;
		offset = clock.now() - clock.monotonic();
		return before - offset > tolerance ? before - offset : 0;
	};
}

const lookMs = 60_000;
const tellMs = 60 * 60_000;

/** Warns that this machine's clock is not the database's. Mail goes by the database's; the log and TLS do not. */
function watchClockSkew(store: Pick<Store, 'skew'>, clock: Pick<Clock, 'monotonic'>, logger: Logger): NodeJS.Timeout {
	const mayLog = createThrottle(tellMs, clock);
	function look(): void {
		const skew = store.skew();
		if (Math.abs(skew) > noticeableSkewMs && mayLog('')) {
			const text = 'The clock of this machine differs from the clock of the database: keep both by NTP.';
			logger.warn({event: 'clock_skew', ahead_seconds: Math.round(skew / 100) / 10}, text);
		}
	}
	look();
	return setInterval(look, lookMs);
}

/** Logs at the start what is allowed and yet hardly meant. */
export function warnAtStart({
	settings,
	publicUrl,
	inContainer,
	logger,
}: {
	readonly settings: Pick<
		Settings,
		'roles' | 'delivery' | 'webhookAllowCidrs' | 'adminListen' | 'httpListen' | 'publicUrl' | 'hostname'
	>;
	/** The base of links. */
	readonly publicUrl: string;
	/** Then the warning can say where the address is meant. */
	readonly inContainer: boolean;
	readonly logger: Logger;
}): void {
	const delivers = settings.roles.includes('deliver');
	if (delivers && settings.publicUrl === null && isWildcard(settings.httpListen.host)) {
		const place = inContainer ? 'in this container' : 'on all addresses of the machine';
		const text = `links in mail lead to ${publicUrl}, a guess as the server listens ${place}: set MAILCTL_PUBLIC_URL to the https address at which recipients reach it`;
		logger.warn({event: 'public_url_guessed', public_url: publicUrl}, text);
	} else if (delivers && settings.delivery !== 'capture' && !publicUrl.startsWith('https:')) {
		const text =
			'mail programs offer one-click unsubscribe for https only, set MAILCTL_PUBLIC_URL to the https address';
		logger.warn({event: 'public_url_not_https', public_url: publicUrl}, text);
	}
	const remark = hostnameRemark(settings);
	if (delivers && remark !== null) {
		logger.warn({event: 'hostname_not_full', hostname: settings.hostname}, remark);
	}
	const admin = settings.adminListen === 'shared' ? settings.httpListen : settings.adminListen;
	if (settings.roles.includes('api') && admin !== null && !isLoopback(admin.host)) {
		const text = 'other machines may reach /metrics and /docs: protect MAILCTL_ADMIN_LISTEN with a firewall';
		logger.warn({event: 'admin_listener_open', host: admin.host}, text);
	}
	if (settings.roles.includes('webhook') && settings.webhookAllowCidrs.length > 0) {
		const text = 'webhooks may reach these ranges that are not public: MAILCTL_WEBHOOK_ALLOW_CIDRS is for a lab';
		logger.warn({event: 'webhook_ranges_allowed', ranges: settings.webhookAllowCidrs}, text);
	}
}

/** What a workspace asks for and the settings do not have, in words for people; empty: all is there. */
function unmetSettings(
	{source_pool: pool, route}: {readonly source_pool: string | null; readonly route: string | null},
	{sourcePools, relays}: Pick<Settings, 'sourcePools' | 'relays'>,
): string[] {
	const noPool = pool !== null && sourcePools.every(({name}) => name !== pool);
	return [
		...(noPool ? [`its source pool ${pool} is not in MAILCTL_SOURCE_POOLS: it sends from all addresses`] : []),
		...(route === 'relay' && relays.length === 0
			? ['its route is relay and MAILCTL_RELAY_URL is not set: its mail goes to the MX hosts']
			: []),
	];
}

/** Logs what workspaces ask for in vain. */
export async function warnOfWorkspaces({
	settings,
	reader,
	logger,
}: {
	readonly settings: Settings;
	readonly reader: Knex;
	readonly logger: Logger;
}): Promise<void> {
	for (const workspace of await listWorkspaces(reader)) {
		for (const problem of unmetSettings(workspace, settings)) {
			logger.warn({event: 'workspace_setting_unknown', workspace: workspace.id}, `${workspace.name}: ${problem}`);
		}
	}
}

// What the daemon watches of its disk: free space, SQLite's write-ahead log, the size of the store.

/** Whether there is space for new mail. What must go on (outcomes, opt-outs, retention) does not ask. */
type FreeSpace = {
	/** Looks at once; resolves when it has looked. */
	readonly look: () => Promise<void>;
	readonly enough: () => boolean;
	/** As of the last look; null where the system does not answer. */
	readonly free: () => number | null;
	readonly stop: () => void;
};

const diskLookMs = 1000;
/** After a shortage a tenth more than the limit is needed: at the limit itself the state would change with every mail. */
const recovery = 1.1;

/**
 * Looks every second, and logs each change. `free`: bytes that the file system of the data folder has left for us. `least`:
 * MAILCTL_MIN_FREE_DISK.
 */
export function watchFreeSpace(
	free: () => Promise<number>,
	least: () => number,
	logger: Pick<Logger, 'info' | 'error'>,
): FreeSpace {
	let enough = true;
	let last: number | null = null;
	let looking: Promise<void> | null = null;
	const timer = setInterval(look, diskLookMs).unref();

	/** A file system that does not answer is asked once. */
	function look(): Promise<void> {
		looking ??= free()
			.then(judge, () => undefined)
			.finally(() => {
				looking = null;
			});
		return looking;
	}

	function judge(bytes: number): void {
		last = bytes;
		const isEnough = bytes >= least() * (enough ? 1 : recovery);
		if (isEnough === enough) {
			return;
		}
		enough = isEnough;
		const figures = {free: bytes, least: least()};
		if (enough) {
			logger.info({event: 'disk_recovered', ...figures}, 'There is room for new mail again.');
		} else {
			logger.error(
				{event: 'disk_low', ...figures},
				'The disk of the data folder has less free space than MAILCTL_MIN_FREE_DISK: no new mail is accepted.',
			);
		}
	}

	return {look, enough: () => enough, free: () => last, stop: () => clearInterval(timer)};
}

/** Short reads that follow each other closely look like a long one. */
const silentTries = 5;

/**
 * Looks at SQLite's write-ahead log every second, and empties it above `most` bytes. SQLite itself only appends to it during a
 * read, and never shrinks it without writes. A log that cannot be emptied is logged each time that it has doubled.
 */
export function watchWal({
	wal,
	most = usualWal,
	logger,
	storeFailed,
}: {
	readonly wal: WriteAheadLog;
	readonly most?: number;
	readonly logger: Pick<Logger, 'info' | 'warn'>;
	readonly storeFailed: (error: unknown) => void;
}) {
	let isLarge = false;
	let tries = 0;
	let reported = 0;
	let looking: Promise<void> | null = null;
	const timer = setInterval(look, diskLookMs).unref();

	async function check(): Promise<void> {
		const bytes = wal.bytes();
		isLarge ||= bytes > most;
		if (!isLarge) {
			return;
		}
		if (await wal.empty()) {
			if (reported > 0) {
				logger.info({event: 'wal_emptied', bytes}, 'The write-ahead log of the store was emptied.');
			}
			[isLarge, tries, reported] = [false, 0, 0];
		} else if (++tries >= silentTries && bytes >= 2 * reported) {
			reported = bytes;
			logger.warn(
				{event: 'wal_large', bytes},
				'The write-ahead log of the store keeps growing, probably because a program holds a long read transaction: see mailctl doctor.',
			);
		}
	}

	function look(): Promise<void> {
		looking ??= check()
			.catch(storeFailed)
			.finally(() => {
				looking = null;
			});
		return looking;
	}

	return {
		/** Looks at once; resolves when it has looked. */
		look,
		/** Resolves when the log is not being emptied any more. */
		async stop(): Promise<void> {
			clearInterval(timer);
			await looking;
		},
	};
}

/** How large the store was, bytes. */
type StoreSize = {readonly at: number; readonly bytes: number};

const sizeEveryMs = 60 * 60_000;
const mostSizes = 30 * 24;

/** Notes the size of the store every hour, which shows its growth. */
export function watchStoreSize(read: () => Promise<number>, now: () => number, storeFailed: (error: unknown) => void) {
	const sizes: StoreSize[] = [];

	async function look(): Promise<void> {
		try {
			sizes.push({bytes: await read(), at: now()});
			sizes.splice(0, sizes.length - mostSizes);
		} catch (error) {
			storeFailed(error);
		}
	}

	void look();
	const timer = setInterval(() => void look(), sizeEveryMs).unref();
	return {
		/** Since the start, an hour apart, of at most 30 days; oldest first. */
		past: (): readonly StoreSize[] => sizes,
		stop: (): void => clearInterval(timer),
	};
}
