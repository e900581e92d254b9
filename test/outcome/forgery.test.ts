import test from 'ava';
import fc from 'fast-check';
import type {Links} from '../../src/links/links.ts';
import type {Reading, Report} from '../../src/mail/report.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';
import {newId} from '../helpers/messages.ts';
import {
	authFailure,
	type Came,
	type Copy,
	complaint,
	delayed,
	hard,
	links,
	type Mailed,
	mailed,
	optOut,
	reading,
	record,
	relayed,
	soft,
	strangersLinks,
} from '../helpers/reports.ts';

/** How somebody makes a token of a kind for a copy: rightly only where he holds it. */
type Forgery = 'held' | 'stranger' | 'wrong_address' | 'flipped' | 'other_purpose';
type Kind = 'b' | 'u' | 'r' | 'm';
type Token = {readonly kind: Kind; readonly copy: number; readonly forgery: Forgery};

const token = fc.record<Token>({
	kind: fc.constantFrom('b', 'u', 'r', 'm'),
	copy: fc.nat(3),
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
	kind: fc.constantFrom<Reading['kind']>('dsn', 'text', 'arf', 'auto_reply', 'other'),
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

/** Two workspaces with the same person, four copies; `held` are those whose tokens the forger has. */
async function prepare(store: Store) {
	const mails = [await mailed(store), await mailed(store)] as const;
	const copies = mails.flatMap(({to, cc}) => [to, cc]);
	return {mails, copies};
}

function textOf({kind, copy, forgery}: Token, copies: readonly Copy[], held: ReadonlySet<number>): string {
	const {id, address, message_id: messageId} = copies[copy] as Copy;
	const isHeld = forgery === 'held' && held.has(copy);
	if (kind === 'm') {
		// Whoever has a copy has the Message-ID of them all; here nobody has it.
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

/** Everything that may not change: of the copies that the forger does not hold, and of lists. */
async function standing(store: Store, mails: readonly Mailed[], copies: readonly Copy[], held: ReadonlySet<number>) {
	const theirs = copies.filter((_, index) => !held.has(index));
	const ids = theirs.map(({id}) => id);
	const own = copies.filter((_, index) => held.has(index)).map(copy => `${copy.workspace_id} ${copy.address}`);
	const lists = async (table: string) => {
		const rows = await store.reader(table).whereIn(
			'workspace_id',
			mails.map(({workspaceId}) => workspaceId),
		);
		return rows.filter(row => !own.includes(`${row.workspace_id} ${row.address}`));
	};
	return {
		copies: await store.reader('recipients').whereIn('id', ids).orderBy('id'),
		events: await store.reader('events').whereIn('recipient_id', ids),
		reports: await store.reader('reports').whereIn('recipient_id', ids),
		suppressions: await lists('suppressions'),
		optOuts: await lists('topic_optouts'),
	};
}

storeTest(test, 'no sequence of mails changes anything but the copies whose tokens it holds', async (t, store) => {
	let touched = 0;
	await fc.assert(
		fc.asyncProperty(
			fc.array(mail, {minLength: 1, maxLength: 6}),
			fc.subarray([0, 1, 2, 3]),
			fc.boolean(),
			async (sequence, holds, isTagged) => {
				const {mails, copies} = await prepare(store);
				if (isTagged) {
					const topic = {workspace_id: mails[0].workspaceId, code: 'news', name: 'News', created_at: 'now'};
					const id = newId('usg');
					await store.database('topics').insert({id, ...topic});
					await store.database('messages').where({id: mails[0].messageId}).update({topic_id: id, topic_code: 'news'});
				}
				const held = new Set(holds);
				const before = await standing(store, mails, copies, held);
				for (const {kind, reports, mailFrom, rcptTo, ...clues} of sequence) {
					const write = (list: readonly Token[]) => list.map(one => textOf(one, copies, held));
					const atHost = (list: readonly Token[]) => write(list).map(local => `${local}@bounces.shop.example`);
					const address = (index: number) => copies[index]?.address ?? 'victim@v.test';
					const came: Came = {
						to: write(rcptTo),
						clues: {
							addressees: atHost(clues.addressees),
							returnPaths: atHost(clues.returnPaths),
							messageIds: atHost(clues.messageIds),
							unsubscribeAddresses: atHost(clues.unsubscribeAddresses),
							envelopeIds: write(clues.envelopeIds),
							refs: write(clues.refs),
						},
						cameIn: {mailFrom},
					};
					const said = reports.map(each => ({
						...each.said,
						recipient: address(each.recipient),
						originalRecipient: each.original === null ? null : address(each.original),
					}));
					const effect = await record(store, reading(said, {kind}), came);
					touched += effect.about.length;
					t.true(effect.about.every(({recipientId}) => holds.some(index => copies[index]?.id === recipientId)));
				}
				t.deepEqual(await standing(store, mails, copies, held), before);
			},
		),
		{numRuns: 60},
	);
	t.true(touched > 0, 'those who hold a token do change their own');
});
