import type {Knex} from 'knex';
import type {Logger} from 'pino';
import {type Clock, repeated} from '../kit/clock.ts';
import {dayMs, storeTime} from '../kit/time.ts';
import type {AlertEvent, AlertKind, AlertMessage, Condition} from '../mail/alert.ts';
import type {NewId} from '../mail/ids.ts';
import {
	type Alert,
	changeCondition,
	claimDigest,
	type DueMessage,
	findAlert,
	forgetCondition,
	hasDueMessages,
	insertCondition,
	type KnownCondition,
	listAlerts,
	listConditions,
	postponeMessage,
	queueMessage,
	removeMessage,
	takeMessages,
	updateAlert,
} from '../store/alerts.ts';
import type {Store} from '../store/store.ts';
import type {Look} from './conditions.ts';
import {type Change, judge} from './judge.ts';

type AlertWatchOptions = {
	readonly store: Pick<Store, 'reader' | 'agreeing'>;
	readonly clock: Clock;
	readonly newId: NewId;
	readonly looks: readonly Look[];
	/** Sends a message; null: it went out, else why it did not. Never rejects. */
	readonly send: (alert: Alert, message: AlertMessage) => Promise<string | null>;
	readonly logger: Pick<Logger, 'info' | 'warn'>;
	readonly storeFailed: (error: unknown) => void;
};

const lookMs = 10_000;
/** For one attempt to send; then another node may. */
const leaseMs = 5 * 60_000;
const firstWaitMs = 30_000;
const longestWaitMs = 60 * 60_000;
/** Older news are dropped. */
const givesUpMs = dayMs;

type Announced = {readonly began: KnownCondition[]; readonly ended: KnownCondition[]};

/**
 * Looks for conditions, says when they begin and end, and sends what is due. Several nodes look: what one of them writes first
 * holds, so that each message goes out once.
 */
export class AlertWatch {
	readonly #options: AlertWatchOptions;
	readonly #since: number;
	readonly #failing = new Set<AlertKind>();
	#watch: ReturnType<typeof repeated> | undefined;

	constructor(options: AlertWatchOptions) {
		this.#options = options;
		this.#since = options.clock.monotonic();
	}

	start(): void {
		this.#watch = repeated(lookMs, () => this.look(), this.#options.storeFailed);
		void this.#watch.now();
	}

	/** Resolves when nothing is under way. */
	async stop(): Promise<void> {
		await this.#watch?.stop();
	}

	/** One look at everything, and an attempt at each message that is due. */
	async look(): Promise<void> {
		const {store, clock} = this.#options;
		const seen = await this.#see();
		const now = clock.now();
		const known = await listConditions(store.reader);
		const changes = judge(known, seen, now, clock.monotonic() - this.#since);
		const alerts = (await listAlerts(store.reader, null)).filter(
			({muted_until: until}) => until === null || until <= storeTime(now),
		);
		const digests = digestsOf(alerts, known, now);
		if (changes.length > 0 || digests.length > 0) {
			await store.agreeing.transaction(async trx => {
				await this.#announce(trx, alerts, await this.#write(trx, changes, storeTime(now)), storeTime(now));
				for (const {alert, lasting} of digests) {
					if (await claimDigest(trx, alert, storeTime(now))) {
						await this.#queue(trx, alert, 'digest', lasting, storeTime(now));
					}
				}
			});
		}
		await this.#sendDue();
	}

	/** A kind that cannot be looked for stays as it is. */
	async #see(): Promise<{kinds: Set<AlertKind>; conditions: Condition[]}> {
		const {looks, logger} = this.#options;
		const kinds = new Set(looks.map(({kind}) => kind));
		const conditions: Condition[] = [];
		for (const {kind, look} of looks) {
			try {
				conditions.push(...(await look()));
				this.#failing.delete(kind);
			} catch (error) {
				kinds.delete(kind);
				if (!this.#failing.has(kind)) {
					this.#failing.add(kind);
					logger.warn({event: 'alert_look_failed', kind, err: error}, 'Alerts of this kind stay as they are.');
				}
			}
		}
		return {kinds, conditions};
	}

	async #write(trx: Knex.Transaction, changes: readonly Change[], now: string): Promise<Announced> {
		const announced: Announced = {began: [], ended: []};
		for (const change of changes) {
			switch (change.kind) {
				case 'seen': {
					const begun = await noteSeen(trx, change, now);
					announced.began.push(...(begun === null ? [] : [begun]));
					break;
				}
				case 'ended':
					if (await changeCondition(trx, change.known, {ended_at: now})) {
						announced.ended.push(change.known);
					}
					break;
				case 'forgotten':
					await forgetCondition(trx, change.known);
			}
		}
		return announced;
	}

	async #announce(
		trx: Knex.Transaction,
		alerts: readonly Alert[],
		{began, ended}: Announced,
		now: string,
	): Promise<void> {
		const {logger} = this.#options;
		for (const {kind, subject, detail} of began) {
			logger.warn({event: 'alert_began', kind, subject}, detail);
		}
		for (const {kind, subject, detail} of ended) {
			logger.info({event: 'alert_ended', kind, subject}, detail);
		}
		for (const alert of alerts) {
			for (const [event, conditions] of [
				['began', began],
				['ended', ended],
			] as const) {
				await this.#queue(trx, alert, event, conditions, now);
			}
		}
	}

	async #queue(
		trx: Knex.Transaction,
		alert: Alert,
		event: AlertEvent,
		conditions: readonly KnownCondition[],
		at: string,
	): Promise<void> {
		const wanted = conditions.filter(one => concerns(alert, one));
		if (wanted.length > 0) {
			const message = {id: this.#options.newId('alm'), event, at, conditions: wanted.map(shownOf)};
			await queueMessage(trx, alert.id, message, at);
		}
	}

	async #sendDue(): Promise<void> {
		const {store, clock} = this.#options;
		const now = clock.now();
		if (!(await hasDueMessages(store.reader, storeTime(now)))) {
			return;
		}
		const due = await store.agreeing.transaction(trx => takeMessages(trx, storeTime(now), storeTime(now + leaseMs)));
		await Promise.all(due.map(one => this.#send(one)));
	}

	async #send(due: DueMessage): Promise<void> {
		const {store, clock, send, logger} = this.#options;
		const alert = await findAlert(store.reader, null, due.alertId);
		if (alert === undefined) {
			return;
		}
		const error = await send(alert, due.message);
		const now = clock.now();
		const waitMs = Math.min(firstWaitMs * 2 ** due.attempts, longestWaitMs);
		const isOver = error === null || now + waitMs - Date.parse(due.message.at) > givesUpMs;
		if (error !== null) {
			const next = isOver ? 'It is given up.' : 'It is tried again.';
			logger.warn({event: 'alert_not_sent', alert: alert.id, way: alert.way, error}, next);
		}
		await store.agreeing.transaction(async trx => {
			await updateAlert(trx, alert.id, error === null ? {sent_at: storeTime(now), error} : {error});
			await (isOver ? removeMessage(trx, due.id) : postponeMessage(trx, due, storeTime(now + waitMs)));
		});
	}
}

/** What lasts for longer than a day, for alerts that had no digest for a day. */
function digestsOf(alerts: readonly Alert[], known: readonly KnownCondition[], now: number) {
	const before = storeTime(now - dayMs);
	const lasting = known.filter(({announced_at: at, ended_at: ended}) => at !== null && at <= before && ended === null);
	return alerts
		.filter(({digest_at: at}) => at <= before)
		.map(alert => ({alert, lasting: lasting.filter(one => concerns(alert, one))}))
		.filter(({lasting: wanted}) => wanted.length > 0);
}

/** Null: it is not announced, or another node was first. */
async function noteSeen(
	trx: Knex.Transaction,
	{condition, known, begins, announced}: Extract<Change, {readonly kind: 'seen'}>,
	now: string,
): Promise<KnownCondition | null> {
	const {kind, subject, workspaceId: workspace_id, detail, fix} = condition;
	const row: KnownCondition = {
		...{kind, subject, workspace_id, detail, fix},
		began_at: begins ? now : (known?.began_at ?? now),
		seen_at: now,
		announced_at: announced ? now : begins ? null : (known?.announced_at ?? null),
		ended_at: null,
		rings: (known?.rings ?? 0) + (announced ? 1 : 0),
	};
	const isFirst = known === null ? await insertCondition(trx, row) : await changeCondition(trx, known, row);
	return isFirst && announced ? row : null;
}

/** Whether the alert is about it. */
function concerns({workspace_id: own, kinds}: Alert, {kind, workspace_id: workspace}: KnownCondition): boolean {
	return (kinds === null || kinds.includes(kind)) && (own === null || own === workspace);
}

const shownOf = ({kind, subject, workspace_id: workspaceId, detail, fix, began_at: since}: KnownCondition) => ({
	...{kind, subject, workspaceId, detail, fix, since},
});
