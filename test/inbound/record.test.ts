import test from 'ava';
import fc from 'fast-check';
import {findCandidates} from '../../src/inbound/reading.ts';
import {type Clues, noClues, type Reading, type StoredInbound} from '../../src/mail/report.ts';
import {anyChar} from '../helpers/any-char.ts';
import {newId} from '../helpers/messages.ts';
import {hard, links, reading} from '../helpers/reports.ts';

const [rcp, other, msg] = [newId('rcp'), newId('rcp'), newId('msg')];
const ada = 'Ada@a.test';
const b = links.returnPathLocal(rcp, ada);
const u = links.unsubscribeLocal(rcp, ada);
const r = links.ref(rcp, ada);
const m = links.messageIdLocal(msg);

function candidates(
	rcptTo: string[],
	clues: Partial<Clues>,
	more: Partial<Reading> = {},
	came: Partial<StoredInbound> = {},
) {
	const cameIn: StoredInbound = {id: '', digest: '', source: 'smtp', mailFrom: '', rcptTo, receivedAt: '', ...came};
	return findCandidates(links, cameIn, reading([hard], {clues: {...noClues, ...clues}, ...more}));
}

test('finds the recipient in every supported place, in order, each with its id and proof', t => {
	const found = candidates([`${b}@bounces.test`], {
		addressees: [`${b}@bounces.test`],
		returnPaths: [`<${b}@bounces.test>`],
		envelopeIds: [r],
		refs: [r],
		messageIds: [`${m}@shop.test`],
		unsubscribeAddresses: [`${u}@bounces.test`],
	});
	t.deepEqual(
		found.map(({via, id}) => [via, id]),
		[
			['return_path', rcp],
			['addressee', rcp],
			['mail_from', rcp],
			['envelope_id', rcp],
			['ref', rcp],
			['message_id', msg],
			['unsubscribe_address', rcp],
		],
	);
	for (const {via, verify} of found) {
		t.true(verify(via === 'message_id' ? '' : 'ada@A.test'), via);
		t.is(verify('eve@e.test'), via === 'message_id', via);
	}
});

test('accepts a token in any letter case, but not in the place of another kind', t => {
	t.is(candidates([`${b.toUpperCase()}@BOUNCES.TEST`], {}).length, 1);
	t.deepEqual(candidates([`${r}@x.test`, `${m}@x.test`], {refs: [b, u, m], envelopeIds: [b], messageIds: [r]}), []);
	t.deepEqual(candidates(['', '@', 'postmaster', 'b@x'], {messageIds: ['', '@x'], refs: ['']}), []);
});

test('ranks an unsubscribe request first, and a report to that address last', t => {
	const vias = (...args: Parameters<typeof candidates>) => candidates(...args).map(({via, id}) => `${via} ${id}`);
	const to = [`${links.returnPathLocal(other, ada)}@x.test`, `${u}@x.test`];
	const request = {kind: 'other', reports: []} as const;
	t.deepEqual(vias(to, {}, request, {mailFrom: ada}), [`unsubscribe_mail ${rcp}`, `return_path ${other}`]);
	const bounced = [`return_path ${other}`, `unsubscribe_address ${rcp}`];
	t.deepEqual(vias(to, {}, request, {mailFrom: ''}), bounced, 'the null sender asks for nothing');
	for (const kind of ['dsn', 'text', 'arf', 'auto_reply'] as const) {
		t.deepEqual(vias(to, {}, {kind}, {mailFrom: ada}), bounced, kind);
	}
	const mailbox = {source: 'imap', mailFrom: null} as const;
	t.deepEqual(vias([], {addressees: [`${u}@x.test`]}, request, mailbox), [`unsubscribe_mail ${rcp}`]);
});

test('uses only the tokens inside a forwarded report', t => {
	const forwarded = {forwarded: true} as const;
	t.deepEqual(candidates([`${b}@x.test`, `${u}@x.test`], {}, forwarded), []);
	t.deepEqual(
		candidates([`${b}@x.test`], {refs: [links.ref(other, ada)]}, forwarded).map(({via, id}) => [via, id]),
		[['ref', other]],
	);
});

test('examines only the first fifty addresses of a message', t => {
	const many = Array.from({length: 1_000_000}, () => `${b}@x.test`);
	t.is(candidates([], {addressees: many}).length, 1);
	t.deepEqual(candidates([], {addressees: [...new Array(50).fill('x@y.test'), `${b}@x.test`]}), []);
});

test('never throws and returns only valid ids for any text', t => {
	const text = fc.oneof(fc.string(), fc.string({unit: anyChar}), fc.constantFrom(b, u, r, m, `${b}@x`, `<${m}@x>`));
	const texts = fc.array(text, {maxLength: 5});
	fc.assert(
		fc.property(texts, texts, texts, (one, two, three) => {
			const clues = {addressees: one, refs: two, messageIds: three, returnPaths: one, envelopeIds: three};
			const ids = candidates(two, clues).map(({id}) => id);
			t.true(ids.every(id => id === rcp || id === msg || /^rcp_[0-9a-z]{26}$/.test(id)));
		}),
	);
});
