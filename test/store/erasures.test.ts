import test from 'ava';
import {findUnmatched} from '../../src/store/retention.ts';
import type {Store} from '../../src/store/store.ts';
import {storeTest} from '../helpers/databases.ts';

type Kept = {raw?: string | Buffer; kept?: string; mail_from?: string; reading?: string};

async function keep(store: Store, mails: Readonly<Record<string, Kept>>): Promise<void> {
	for (const [id, {raw = '', ...mail}] of Object.entries(mails)) {
		await store.database('inbound').insert({
			...{
				id,
				digest: `hash of ${id}`,
				source: 'smtp',
				rcpt_to: '[]',
				size: 1,
				received_at: 'now',
				read_at: 'now',
			},
			...{kept: 'unmatched', ...mail, raw: Buffer.from(raw)},
		});
	}
}

storeTest(test, 'finds unmatched reports by an address in any case', async (t, store) => {
	await keep(store, {
		lower: {raw: 'To: <jane_1@home.example>'},
		upper: {raw: 'To: <JANE_1@Home.EXAMPLE>'},
		bytes: {raw: Buffer.concat([Buffer.from([0, 0xff, 0xc3, 0x5c]), Buffer.from('x\0Jane_1@home.example\0')])},
		sender: {mail_from: 'Jane_1@HOME.example'},
		read: {reading: '{"reports":[{"recipient":"Jane_1@Home.example"}]}'},
		unreadable: {kept: 'unread', raw: 'Jane_1@home.example'},
		other: {
			raw: 'jane-1@home.example, jane_1@home.examples is another, not jane_1 @home.example'.replace(
				'jane_1@',
				'ann@',
			),
		},
		letter: {kept: 'operator', raw: 'jane_1@home.example'},
	});
	const found = ['bytes', 'lower', 'read', 'sender', 'unreadable', 'upper'];
	t.deepEqual((await findUnmatched(store.reader, 'jane_1@home.example')).sort(), found);
});

storeTest(test, 'finds an address with special characters', async (t, store) => {
	for (const address of ['zoë@home.example', 'a\\b@home.example', "a'%b@home.example", '"a b"@home.example']) {
		await keep(store, {[address]: {raw: `Final-Recipient: rfc822; ${address}\r\n`}});
		t.deepEqual(await findUnmatched(store.reader, address), [address]);
	}
});
