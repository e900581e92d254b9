import test from 'ava';
import type {Store} from '../../../src/store/store.ts';
import {golden, newCli, refused} from '../../helpers/cli.ts';
import {hard, links, mailed, reading, record, returnPath, strangersLinks} from '../../helpers/reports.ts';

type Listed = {readonly id: string; readonly kept: string; readonly why: string; readonly tried: object[]};

/** One of our messages, and four returned messages that change nothing. */
async function prepare(store: Store): Promise<string> {
	const {to} = await mailed(store);
	const at = (minute: number) => new Date(Date.UTC(2026, 10, 21, 10, minute)).toISOString();
	const forged = strangersLinks.returnPathLocal(to.id, to.address);
	const come = async (
		minute: number,
		...[read, came]: [Parameters<typeof record>[1], Parameters<typeof record>[2]]
	) =>
		await record(store, read, {
			bytes: `mail ${minute}\x1b`,
			...came,
			cameIn: {receivedAt: at(minute), ...came?.cameIn},
		});
	await come(1, reading([{...hard, recipient: 'victim@other.example', reason: '550 gone \x1b[31m'}]), {to: [forged]});
	await come(2, reading([], {kind: 'other'}), {
		to: ['abuse'],
		bytes: 'From: Some Body <some@x.example>\r\nSubject: =?utf-8?q?Your_mail=1b_to_me?=\r\n\r\nStop it.\r\n',
		cameIn: {mailFrom: 'bounce@x.example'},
	});
	await come(3, reading([], {kind: 'text', fault: 'too many parts'}), {to: [returnPath(to)]});
	await come(4, reading([hard]), {
		clues: {refs: [links.ref('rcp_01m7z554c8nj5wj7eaz88j02r6', 'a@b.c')]},
		cameIn: {source: 'imap', mailFrom: null},
	});
	return to.id;
}

test('bounce unmatched lists retained messages with the reason, shows one, and prints it with --raw', async t => {
	const cli = await newCli(t);
	await cli.json('init');
	const id = await prepare(await cli.store());
	const listed = await cli.json<Listed[]>('bounce', 'unmatched');
	t.deepEqual(
		listed.map(({kept, why}) => `${kept}: ${why}`),
		['unmatched: recipient gone', 'unread: too many parts', 'operator: for you', 'unmatched: forged token'],
	);
	t.deepEqual(listed.at(-1)?.tried, [{via: 'return_path', id, fault: 'forged'}]);
	t.is((await cli.json<Listed[]>('bounce', 'unmatched', '--limit', '1')).length, 1);
	golden(t, 'bounce-unmatched', mask(await cli.text('bounce', 'unmatched')));
	const letter = listed.find(({kept}) => kept === 'operator') as Listed;
	t.like(letter, {from: 'some@x.example', subject: 'Your mail\x1b to me', mail_from: 'bounce@x.example'});
	golden(t, 'bounce-unmatched-letter', mask(await cli.text('bounce', 'unmatched', letter.id)));
	const first = listed.at(-1)?.id.slice(0, 12) as string;
	const text = await cli.text('bounce', 'unmatched', first);
	t.false(text.includes('\x1b'));
	golden(t, 'bounce-unmatched-show', mask(text));
	t.is(await cli.text('bounce', 'unmatched', first, '--raw'), 'mail 1\x1b');
	t.like(await cli.json('bounce', 'unmatched', first), {id: listed.at(-1)?.id, kind: 'dsn', mail_from: ''});
});

/** Masks ids of messages and tokens of return paths, which differ from run to run. */
function mask(text: string): string {
	return text
		.replaceAll(/\b[0-9a-f]{64}\b/g, 'f'.repeat(64))
		.replaceAll(/\b[0-9a-f]{12}\b/g, 'f'.repeat(12))
		.replaceAll(/\bb[0-9a-z]{44}@/g, `b${'0'.repeat(44)}@`);
}

test('bounce unmatched with nothing retained, an unknown id, or --raw without an id', async t => {
	const cli = await newCli(t);
	await cli.json('init');
	t.deepEqual(await cli.json('bounce', 'unmatched'), []);
	refused(t, await cli.run('bounce', 'unmatched', '0123456789ab'), 65, /retained message 0123456789ab not found/);
	refused(t, await cli.run('bounce', 'unmatched', "x' or 1=1"), 65, /retained message .* not found/);
	refused(t, await cli.run('bounce', 'unmatched', '--raw'), 64, /--raw needs an id/);
});
