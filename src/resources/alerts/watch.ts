import type {Knex} from 'knex';
import type {Logger} from 'pino';
import {type Clock, repeated} from '../../kit/clock.ts';
import {storeTime} from '../../kit/time.ts';
import {type AlertKind, type AlertMessage, alertKindNames, type Condition} from '../../mail/alert.ts';
import type {NewId} from '../../mail/ids.ts';
import type {Store} from '../../store/store.ts';
import {type Change, judge, type News} from './judge.ts';
import {
	type Alert,
	beginAttempt,
	changeCondition,
	type DueMessage,
	findAlert,
	type KnownCondition,
	listAlerts,
	listConditions,
	listDueMessages,
	queueMessage,
	removeMessage,
	updateAlert,
} from './store.ts';

type AlertWatchOptions = {
	readonly store: Pick<Store, 'reader' | 'agreeing'>;
	readonly clock: Clock;
	readonly newId: NewId;
	readonly read: (kind: AlertKind) => Promise<readonly Condition[]>;
	/** Sends a message. Returns why it was not sent, or `null`. Never rejects. */
	readonly send: (alert: Alert, message: AlertMessage) => Promise<string | null>;
	readonly logger: Pick<Logger, 'info' | 'warn'>;
	readonly storeFailed: (error: unknown) => void;
};

const checkIntervalMs = 10_000;
const minuteMs = 60_000;
/** The delays between the three attempts to send a message. The last attempt reaches a server that was down an hour. */
const retryDelaysMs = [10 * minuteMs, 80 * minuteMs];
/** If a node has not finished the last attempt after this time, it has died, and another node repeats the attempt. */
const lastAttemptMs = 10 * minuteMs;

/**
 * Watches the conditions that alerts report. This folder reads them, decides when they begin and clear, and sends the
 * messages. It relies on src/doctor for local checks and on src/store for everything shared by the nodes. It never uses
 * the queue, and never fixes what it reports. All nodes watch: the first one to change a row reports it, and the first
 * one to start an attempt sends.
 */
export class AlertWatch {
	readonly #options: AlertWatchOptions;
	readonly #startedAt: number;
	readonly #failing = new Set<AlertKind>();
	#watch: ReturnType<typeof repeated> | undefined;

	constructor(options: AlertWatchOptions) {
		this.#options = options;
		this.#startedAt = options.clock.monotonic();
	}

	start(): void {
		this.#watch = repeated(checkIntervalMs, () => this.check(), this.#options.storeFailed);
		void this.#watch.now();
	}

	/** Resolves when nothing is in progress. */
	async stop(): Promise<void> {
		await this.#watch?.stop();
	}

	/** Reads all conditions once, and attempts to send each message that is due. */
	async check(): Promise<void> {
		const {store, clock} = this.#options;
		const reading = await this.#read();
		const known = await listConditions(store.reader);
		const changes = judge(known, reading, clock.now(), clock.monotonic() - this.#startedAt);
		if (changes.length > 0) {
			await store.agreeing.transaction(trx => this.#write(trx, changes));
		}
		await this.#sendDue();
	}

	/** Reads the conditions. A kind that cannot be read is left out. */
	async #read(): Promise<{kinds: Set<AlertKind>; conditions: Condition[]}> {
		const {read, logger} = this.#options;
		const kinds = new Set<AlertKind>();
		const conditions: Condition[] = [];
		for (const kind of alertKindNames) {
			try {
				conditions.push(...(await read(kind)));
				kinds.add(kind);
				this.#failing.delete(kind);
			} catch (error) {
				if (!this.#failing.has(kind)) {
					this.#failing.add(kind);
					logger.warn(
						{event: 'alert_check_failed', kind, err: error},
						'The conditions of this kind could not be read. Their alerts do not change.',
					);
				}
			}
		}
		return {kinds, conditions};
	}

	async #write(trx: Knex.Transaction, changes: readonly Change[]): Promise<void> {
		const announced: Record<News, KnownCondition[]> = {began: [], ended: []};
		for (const {known, next, news} of changes) {
			const isFirst = await changeCondition(trx, known, next);
			if (isFirst && next !== null && news !== null) {
				announced[news].push(next);
			}
		}
		await this.#announce(trx, 'began', announced.began);
		await this.#announce(trx, 'ended', announced.ended);
	}

	/** Logs conditions, and queues a message for each alert that covers them and is not muted. */
	async #announce(trx: Knex.Transaction, event: News, conditions: readonly KnownCondition[]): Promise<void> {
		const {clock, newId, logger} = this.#options;
		if (conditions.length === 0) {
			return;
		}
		for (const {kind, subject, detail} of conditions) {
			if (event === 'began') {
				logger.warn({event: 'alert_began', kind, subject}, detail);
			} else {
				logger.info({event: 'alert_ended', kind, subject}, detail);
			}
		}
		const at = storeTime(clock.now());
		for (const alert of await listAlerts(trx, null)) {
			const isMuted = alert.muted_until !== null && alert.muted_until > at;
			const covered = isMuted
				? []
				: conditions.filter(condition => covers(alert, condition)).map(toAlertCondition);
			if (covered.length > 0) {
				await queueMessage(trx, alert.id, {id: newId('alm'), event, at, conditions: covered});
			}
		}
	}

	async #sendDue(): Promise<void> {
		const {store, clock} = this.#options;
		const due = await listDueMessages(store.reader, storeTime(clock.now()));
		await Promise.all(due.map(message => this.#attempt(message)));
	}

	async #attempt(due: DueMessage): Promise<void> {
		const {store, clock, send, logger} = this.#options;
		const nextAt = storeTime(clock.now() + (retryDelaysMs[due.attempts] ?? lastAttemptMs));
		const isClaimed = await store.agreeing.transaction(trx => beginAttempt(trx, due, nextAt));
		const alert = isClaimed ? await findAlert(store.reader, null, due.alert_id) : undefined;
		if (alert === undefined) {
			return;
		}
		const error = await send(alert, {...JSON.parse(due.message), id: due.id});
		// `attempts` does not include this one.
		const isLast = due.attempts >= retryDelaysMs.length;
		if (error !== null) {
			const next = isLast ? 'No further attempt will be made.' : 'It will be attempted again.';
			logger.warn({event: 'alert_not_sent', alert: alert.id, way: alert.way, error}, next);
		}
		await store.agreeing.transaction(async trx => {
			await updateAlert(trx, alert.id, error === null ? {sent_at: storeTime(clock.now()), error} : {error});
			if (error === null || isLast) {
				await removeMessage(trx, due.id);
			}
		});
	}
}

/** Whether an alert covers a condition. */
function covers({workspace_id: scope, kinds}: Alert, {kind, workspace_id: workspace}: KnownCondition): boolean {
	return (kinds === null || kinds.includes(kind)) && (scope === null || scope === workspace);
}

const toAlertCondition = ({
	kind,
	subject,
	workspace_id: workspaceId,
	detail,
	fix,
	began_at: since,
}: KnownCondition) => ({
	kind,
	subject,
	workspaceId,
	detail,
	fix,
	since,
});
