import type {ExecutionContext} from 'ava';
import {systemClock} from '../../src/kit/clock.ts';
import {storeTime} from '../../src/kit/time.ts';
import {createIdSource} from '../../src/mail/ids.ts';
import type {Outcome} from '../../src/mail/outcome.ts';
import {createRecordWrite} from '../../src/outcome/record.ts';
import {decideNext, type JudgedAttempt} from '../../src/outcome/settle.ts';
import {type Claimed, createClaimWrite} from '../../src/store/queue/claims.ts';
import type {Store} from '../../src/store/store.ts';
import {idOf, startApi, type TestApi} from './api.ts';
import {eventWriter, newId} from './messages.ts';
import {waitFor} from './wait.ts';

/** Claims what is due for a destination, as a daemon does. */
export async function claimDue(
	{store, workspace}: Pick<TestApi, 'store' | 'workspace'>,
	boot: string,
	destination = 'a.test',
): Promise<readonly Claimed[]> {
	const write = createClaimWrite({dialect: store.dialect, boot, newId, clock: systemClock});
	const {recipients} = await store.writer.submit(write, {
		...{destination, workspaceId: workspace.id, limit: 9, newestFirst: false, lastsMs: 60_000, asksNext: false},
		warmUp: null,
	});
	return recipients;
}

/** A message to ada@a.test whose first try is under way. */
export async function startFirstTry(t: ExecutionContext, store: Store, fields: object = {}) {
	const api = await startApi(t, store);
	const id = idOf(await api.send({to: 'ada@a.test', ...fields}));
	const boot = newId('req');
	const [recipient] = await claimDue(api, boot);
	return {api, id, boot, recipient: recipient as Claimed};
}

/** Records the end of a try, as the daemon `boot` does; answers whether it still had the copy. */
export async function endTry(
	store: Store,
	boot: string,
	recipient: Claimed,
	outcome: Outcome,
	sentAt: string | null = null,
): Promise<boolean> {
	// Its events are made within a millisecond.
	const later = Date.now() + 1;
	const newIds = createIdSource({now: () => later, monotonic: () => 0});
	const write = createRecordWrite(boot, {...eventWriter, newId: newIds});
	const recorded = await store.writer.submit(write, judgedOf(recipient, outcome, sentAt));
	// Ids that are made from now on sort behind those of its events.
	await waitFor('the millisecond of its events is over', () => Date.now() > later);
	return recorded;
}

/** The end of a try, judged. */
export function judgedOf(recipient: Claimed, outcome: Outcome, sentAt: string | null = null): JudgedAttempt {
	const now = Date.now();
	const result = {recipientId: recipient.id, outcome, attempts: [], sentAt, at: storeTime(now)};
	const retry = {schedule: {waits: [60_000], repeatLast: true}, lifetime: 3_600_000};
	const {attempts, sent_at: before} = recipient;
	const end = {result, acceptedAt: now, attempts, sentBefore: before !== null, retry};
	return {recipient, rendered: null, result, verdict: decideNext(end, now, Math.random), crashes: 0};
}

type Seen = {
	readonly status: string;
	readonly updated_at: string;
	readonly recipients: ReadonlyArray<{readonly role: string; readonly state: string; readonly state_at: string}>;
	readonly events: ReadonlyArray<{readonly id: string; readonly type: string; readonly occurred_at: string}>;
	/** In which of the states the list of messages has it. */
	readonly listed: readonly string[];
};

/** What the API shows of a message. */
export async function seen(api: TestApi, id: string): Promise<Seen> {
	const bodyOf = async (path: string) => (await api.get(path)).body as Seen & {readonly data: never[]};
	const {status, updated_at: updated} = await bodyOf(`/v1/messages/${id}`);
	const recipients: Seen['recipients'] = (await bodyOf(`/v1/messages/${id}/recipients`)).data;
	const events: Seen['events'] = (await bodyOf(`/v1/messages/${id}/events`)).data;
	const listed: string[] = [];
	for (const state of ['accepted', 'queued', 'sent', 'delivered', 'bounced', 'suppressed']) {
		const found: Array<{id: string; status: string}> = (await bodyOf(`/v1/messages?status=${state}`)).data;
		listed.push(...found.filter(one => one.id === id && one.status === state).map(one => one.status));
	}
	const about = recipients.map(({role, state, state_at}) => ({role, state, state_at}));
	return {status, updated_at: updated, recipients: about, events, listed};
}

export const typesOf = ({events}: Seen) => events.map(({type}) => type);
