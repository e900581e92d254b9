import test from 'ava';
import type {ImapFlow} from 'imapflow';
import {takeNewOfFolder} from '../../src/inbound/mailboxes.ts';

test('a connection that is lost between two fetches: what was not fetched is not passed over', async t => {
	const saved: string[] = [];
	const source = Buffer.from('Subject: x\r\n\r\ntext\r\n');
	// As imapflow: without a connection there is no folder, and a fetch ends without a word.
	const client = {
		mailbox: {uidValidity: 7n} as {uidValidity: bigint} | false,
		search: async () => Array.from({length: 250}, (_, n) => n + 1),
		async *fetch(uids: string) {
			if (client.mailbox !== false) {
				yield* uids.split(',').map(uid => ({uid: Number(uid), source, size: source.length}));
			}
		},
	};
	const checkpoint = {
		load: async () => null,
		async save(position: string) {
			saved.push(position);
			client.mailbox = false;
		},
	};
	const takeIn = async () => ({id: 'x', isNew: true});
	const options = {checkpoint, takeIn, signal: new AbortController().signal};
	await t.throwsAsync(takeNewOfFolder(client as unknown as ImapFlow, options), {message: 'the connection was lost'});
	t.deepEqual(saved, ['7:100']);
	await t.throwsAsync(takeNewOfFolder(client as unknown as ImapFlow, options), {message: 'the connection was lost'});
});
