import test from 'ava';
import fc from 'fast-check';
import type {Links} from '../../src/compose/links/links.ts';
import {readReport} from '../../src/inbound/reports/read-report.ts';
import type {Clues, Reading, Report} from '../../src/mail/report.ts';
import type {Store} from '../../src/store/store.ts';
import {classify} from '../helpers/classify.ts';
import {storeTest} from '../helpers/databases.ts';
import {bytesOf, type MailKind} from '../helpers/forged-mails.ts';
import {newId} from '../helpers/messages.ts';
import {
	authFailure,
	complaint,
	delayed,
	hard,
	links,
	type Mailed,
	mailed,
	optOut,
	type Recipient,
	reading,
	record,
	relayed,
	soft,
	strangersLinks,
} from '../helpers/reports.ts';

/** How a token of a kind is created for a recipient: validly only by someone who holds it. */
type Forgery = 'held' | 'stranger' | 'wrong_address' | 'flipped' | 'other_purpose';
type Kind = 'b' | 'u' | 'r' | 'm';
type Token = {readonly kind: Kind; readonly recipient: number; readonly forgery: Forgery};

const token = fc.record<Token>({
	kind: fc.constantFrom('b', 'u', 'r', 'm'),
	recipient: fc.nat(3),
	forgery: fc.constantFrom('held', 'stranger', 'wrong_address', 'flipped', 'other_purpose'),
});
const tokens = fc.array(token, {maxLength: 3});

const report = fc
	.tuple(
		fc.constantFrom<Report>(hard, soft, delayed, relayed, complaint, optOut, authFailure),
		fc.nat(4),
		fc.option(fc.nat(4)),
	)
	.map(([said, recipient, original]) => ({said, recipient, original}));

const mail = fc.record({
	kind: fc.constantFrom<MailKind>('dsn', 'text', 'arf', 'auto_reply', 'other'),
	reports: fc.array(report, {maxLength: 3}),
	mailFrom: fc.constantFrom('', 'ada@a.test', null),
	rcptTo: tokens,
	addressees: tokens,
	returnPaths: tokens,
	envelopeIds: tokens,
	refs: tokens,
	messageIds: tokens,
	unsubscribeAddresses: tokens,
});

/** Two workspaces with messages to the same people, four recipients; the first message may have a topic. */
async function prepare(store: Store, isTagged: boolean) {
	const mails = [await mailed(store), await mailed(store)] as const;
	const recipients = mails.flatMap(({to, cc}) => [to, cc]);
	const [{workspaceId, messageId}] = mails;
	if (isTagged) {
		const topic = {id: newId('usg'), workspace_id: workspaceId, code: 'news', name: 'News', created_at: 'now'};
		await store.database('topics').insert(topic);
		await store.database('messages').where({id: messageId}).update({topic_id: topic.id, topic_code: 'news'});
	}
	return {mails, recipients};
}

type Forged = typeof mail extends fc.Arbitrary<infer Mail> ? Mail : never;

/** What a forger writes who holds the tokens of some recipients. */
function written(forged: Forged, recipients: readonly Recipient[], held: ReadonlySet<number>) {
	const write = (list: readonly Token[]) => list.map(one => textOf(one, recipients, held));
	const atHost = (list: readonly Token[]) => write(list).map(local => `${local}@bounces.shop.example`);
	const address = (index: number) => recipients[index]?.address ?? 'victim@v.test';
	const clues: Clues = {
		addressees: atHost(forged.addressees),
		returnPaths: atHost(forged.returnPaths),
		messageIds: atHost(forged.messageIds),
		unsubscribeAddresses: atHost(forged.unsubscribeAddresses),
		envelopeIds: write(forged.envelopeIds),
		refs: write(forged.refs),
	};
	const said = forged.reports.map(each => ({
		...each.said,
		recipient: address(each.recipient),
		originalRecipient: each.original === null ? null : address(each.original),
	}));
	return {said, clues, to: write(forged.rcptTo)};
}

function textOf(
	{kind, recipient, forgery}: Token,
	recipients: readonly Recipient[],
	held: ReadonlySet<number>,
): string {
	const {id, address, message_id: messageId} = recipients[recipient] as Recipient;
	const isHeld = forgery === 'held' && held.has(recipient);
	if (kind === 'm') {
		// Every recipient has the Message-ID that all of them share; here nobody has it.
		return strangersLinks.messageIdLocal(messageId);
	}
	const made = (by: Links, of: string, purpose: Exclude<Kind, 'm'> = kind) =>
		({b: by.returnPathLocal, u: by.unsubscribeLocal, r: by.ref})[purpose](of, address);
	if (isHeld) {
		return made(links, id);
	}
	switch (forgery) {
		case 'wrong_address':
			return links.returnPathLocal(id, 'mallory@m.test').replace(/^b/, kind);
		case 'flipped': {
			const right = made(links, id);
			return right.slice(0, -5) + (right.at(-5) === '0' ? '1' : '0') + right.slice(-4);
		}
		case 'other_purpose':
			return made(links, id, kind === 'b' ? 'u' : 'b').replace(/^./, kind);
		default:
			return made(strangersLinks, id);
	}
}

/** Everything that must not change: recipients whose tokens the forger does not hold, and lists. */
async function status(
	store: Store,
	mails: readonly Mailed[],
	recipients: readonly Recipient[],
	held: ReadonlySet<number>,
) {
	const theirs = recipients.filter((_, index) => !held.has(index));
	const ids = theirs.map(({id}) => id);
	const own = recipients
		.filter((_, index) => held.has(index))
		.map(recipient => `${recipient.workspace_id} ${recipient.address}`);
	const lists = async (table: string) => {
		const rows = await store.reader(table).whereIn(
			'workspace_id',
			mails.map(({workspaceId}) => workspaceId),
		);
		return rows.filter(row => !own.includes(`${row.workspace_id} ${row.address}`));
	};
	return {
		recipients: await store.reader('recipients').whereIn('id', ids).orderBy('id'),
		events: await store.reader('events').whereIn('recipient_id', ids),
		reports: await store.reader('reports').whereIn('recipient_id', ids),
		suppressions: await lists('suppressions'),
		optOuts: await lists('topic_optouts'),
	};
}

/** How the reading of a message is obtained: given, or read from its bytes. */
type Read = (kind: MailKind, reports: readonly Report[], clues: Clues) => Reading;

const asTold: Read = (kind, reports, clues) => reading(reports, {kind, clues});
const asRead: Read = (kind, reports, clues) => readReport(bytesOf(kind, reports, clues), classify);

for (const [how, read] of [
	['as they are told', asTold],
	['as they are read', asRead],
] as const) {
	storeTest(
		test,
		`changes only recipients whose tokens the messages hold, for any sequence of them, ${how}`,
		async (t, store) => {
			let touched = 0;
			await fc.assert(
				fc.asyncProperty(
					fc.array(mail, {minLength: 1, maxLength: 6}),
					fc.subarray([0, 1, 2, 3]),
					fc.boolean(),
					async (sequence, holds, isTagged) => {
						const {mails, recipients} = await prepare(store, isTagged);
						const held = new Set(holds);
						const before = await status(store, mails, recipients, held);
						for (const one of sequence) {
							const {said, clues, to} = written(one, recipients, held);
							const effect = await record(store, read(one.kind, said, clues), {
								to,
								cameIn: {mailFrom: one.mailFrom},
							});
							touched += effect.about.length;
							t.true(
								effect.about.every(({recipientId}) =>
									holds.some(index => recipients[index]?.id === recipientId),
								),
							);
						}
						t.deepEqual(await status(store, mails, recipients, held), before);
					},
				),
				{numRuns: 50},
			);
			t.true(touched > 0, 'those who hold a token do change their own');
		},
	);
}
