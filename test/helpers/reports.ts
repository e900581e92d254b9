import {createHash, randomBytes} from 'node:crypto';
import {createLinks} from '../../src/compose/links/links.ts';
import {findCandidates} from '../../src/inbound/reading.ts';
import {storeTime} from '../../src/kit/time.ts';
import {type Clues, noClues, type Reading, type Report, type StoredInbound} from '../../src/mail/report.ts';
import {createReportWrite, type ReadMail, type ReportEffect} from '../../src/outcome/reports.ts';
import type {Store} from '../../src/store/store.ts';
import {eventWriter, insertMessages, insertWorkspace, newId} from './messages.ts';
import {changeRecipients, recipientRows} from './recipient-rows.ts';

export const links = createLinks({
	keys: {current: 1, keys: {1: new Uint8Array(32).fill(5)}},
	publicUrl: 'https://mail.shop.example',
	random: randomBytes,
});
export const strangersLinks = createLinks({
	keys: {current: 1, keys: {1: new Uint8Array(32).fill(6)}},
	publicUrl: 'https://mail.shop.example',
	random: randomBytes,
});

export const reportWrite = createReportWrite(eventWriter, {retentionDays: () => 90});

export const hard: Report = {
	recipient: 'ada@a.test',
	originalRecipient: null,
	action: 'failed',
	status: '5.1.1',
	code: 550,
	host: 'mx.a.test',
	type: 'permanent',
	category: 'unknown_user',
	suppresses: true,
	rule: 'code-5.1.1',
	matched: '5.1.1',
	reason: '550 5.1.1 User unknown',
	feedbackType: null,
};
export const soft: Report = {
	...hard,
	...{status: '5.2.2', code: 552, type: 'transient', category: 'mailbox_full', suppresses: false},
	...{rule: 'code-5.2.2', matched: '5.2.2', reason: '552 5.2.2 Mailbox full'},
};
const nothing = {status: null, code: null, host: null, type: 'none', category: null, suppresses: false} as const;
const silent = {...nothing, rule: null, matched: null, reason: ''};
export const delayed: Report = {...hard, ...silent, action: 'delayed', status: '4.4.1'};
export const relayed: Report = {...hard, ...silent, action: 'relayed', status: '2.0.0'};
export const complaint: Report = {...hard, ...silent, action: 'complaint', suppresses: true, feedbackType: 'abuse'};
export const optOut: Report = {...hard, ...silent, action: 'unsubscribe', feedbackType: 'opt-out'};
export const authFailure: Report = {...hard, ...silent, action: 'none', feedbackType: 'auth-failure'};

/** A mail as it was read: a DSN unless something else is said. */
export function reading(reports: readonly Report[], more: Partial<Reading> = {}): Reading {
	return {kind: 'dsn', reports, clues: noClues, fault: null, ...more};
}

export type Came = {
	/** Local parts of the addresses that it came to. */
	readonly to?: readonly string[];
	readonly clues?: Partial<Clues>;
	readonly cameIn?: Partial<StoredInbound>;
	/** What makes the mail another one. */
	readonly bytes?: string;
	readonly reporter?: string | null;
};

/** Takes a mail in as it was read, and records it. */
export async function record(store: Store, read: Reading, came: Came = {}): Promise<ReportEffect> {
	const mail = await taken(store, read, came);
	return await store.writer.submit(reportWrite, mail);
}

/** A mail in the store, as it is to be recorded. */
export async function taken(
	store: Store,
	read: Reading,
	{to = [], clues = {}, cameIn: given = {}, bytes = newId('req'), reporter = null}: Came = {},
): Promise<ReadMail> {
	const rcptTo = to.map(local => `${local}@bounces.shop.example`);
	const digest = createHash('sha256').update(bytes).digest('hex');
	const id = createHash('sha256')
		.update([digest, ...rcptTo].join('\n'))
		.digest('hex');
	const at = storeTime(Date.now());
	const cameIn: StoredInbound = {id, digest, source: 'smtp', mailFrom: '', rcptTo, receivedAt: at, ...given};
	await store
		.database('inbound')
		.insert({
			...{
				id: cameIn.id,
				digest,
				source: cameIn.source,
				mail_from: cameIn.mailFrom,
				rcpt_to: JSON.stringify(rcptTo),
			},
			...{raw: Buffer.from(bytes), size: bytes.length, received_at: cameIn.receivedAt},
		})
		.onConflict('id')
		.ignore();
	const found: Reading = {...read, clues: {...read.clues, ...clues}};
	return {
		inbound: cameIn,
		size: bytes.length,
		reading: found,
		candidates: findCandidates(links, cameIn, found),
		reporter,
		at,
	};
}

export type Recipient = {
	readonly id: string;
	readonly message_id: string;
	readonly workspace_id: string;
	readonly address: string;
	readonly role: 'to' | 'cc';
	readonly state: string;
	readonly next_attempt_at: string | null;
};

export type Mailed = {
	readonly workspaceId: string;
	readonly messageId: string;
	readonly to: Recipient;
	readonly cc: Recipient;
};

/** A delivered message with a `cc` copy. */
export async function mailed(store: Store, name = newId('req'), address = 'ada@a.test'): Promise<Mailed> {
	const {workspaceId} = await insertWorkspace(store, name);
	const [messageId] = (await insertMessages(store, workspaceId, [address])) as [string];
	const {database} = store;
	const at = storeTime(Date.now());
	await changeRecipients(database, all => all.where({message_id: messageId}), {
		state: 'delivered',
		sent_at: at,
		attempts: 1,
		next_attempt_at: null,
	});
	const to: Recipient = await recipientRows(database).where({message_id: messageId}).first();
	const other = {address: 'bob@b.test', address_key: 'bob@b.test', role: 'cc', destination: 'b.test'};
	const row = await database('recipients').where({id: to.id}).first();
	await database('recipients').insert({...row, id: newId('rcp'), ...other});
	const cc: Recipient = await recipientRows(database).where({message_id: messageId, role: 'cc'}).first();
	return {workspaceId, messageId, to, cc};
}

export const returnPath = ({id, address}: Recipient) => links.returnPathLocal(id, address);

export const stateOf = async (store: Store, {id}: Recipient) =>
	(await recipientRows(store.reader).where({id}).first()).state;

/** The suppressed addresses with reason and source. */
export async function suppressed(store: Store, workspaceId: string): Promise<string[]> {
	const rows = await store.reader('suppressions').where({workspace_id: workspaceId}).orderBy('address');
	return rows.map(({address, reason, source}) => `${address} ${reason} ${source}`);
}
