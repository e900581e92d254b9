import path from 'node:path';
import test from 'ava';
import {openStore} from '../../src/store/store.ts';
import {bounceFor} from '../bench/report-load.ts';
import {prepareProgram} from '../helpers/daemon.ts';
import {inboundPort, insertDeliveredIn} from '../helpers/sent-recipients.ts';
import {talkTo} from '../helpers/smtp-talk.ts';
import {waitFor} from '../helpers/wait.ts';

const domain = 'bounces.shop.example';

test('unauthenticated inbound messages use up the allowance of their client; genuine reports do not', async t => {
	const program = await prepareProgram(t, {
		MAILCTL_INBOUND_LISTEN: '127.0.0.1:0',
		MAILCTL_RETURN_PATH_DOMAIN: domain,
		MAILCTL_INBOUND_ALLOWANCE: '5/2MiB',
	});
	await program.cliBytes('init');
	const dataDir = path.join(program.folder, 'data');
	const addresses = Array.from({length: 30}, (_, n) => `user${n}@example.net`);
	const recipients = await insertDeliveredIn(dataDir, addresses, domain);
	await program.serve();
	const store = await openStore({file: path.join(dataDir, 'mailctl.db')});
	t.teardown(() => store.close());
	const talk = await talkTo(t, inboundPort(dataDir));
	await talk.reply();
	await talk.say('EHLO peer.test');
	const bring = async (to: string, mail: string | Buffer) => {
		await talk.say('RSET');
		await talk.say('MAIL FROM:<>');
		const reply = await talk.say(`RCPT TO:<${to}>`);
		return (reply.startsWith('250') ? await talk.data(mail) : reply).slice(0, 9);
	};
	const allRead = () =>
		waitFor('all is read', async () => (await store.reader('inbound').whereNull('read_at')).length === 0);

	// Bounces to the feedback address: nothing but the tokens in them says whose they are. Each counts until it is read.
	for (const [n, recipient] of recipients.entries()) {
		t.is(await bring(`fbl@${domain}`, bounceFor(recipient.returnPath, recipient.address, n)), '250 2.6.0', `${n}`);
		if (n % 5 === 4) {
			await allRead();
		}
	}
	t.is((await store.reader('reports')).length, 30);

	const large = Buffer.concat([Buffer.from('Subject: x\r\n\r\n'), Buffer.alloc(900_000, `${'x'.repeat(70)}\r\n`)]);
	t.is(await bring(`fbl@${domain}`, large), '250 2.6.0');
	t.is(await bring(`fbl@${domain}`, Buffer.concat([large, Buffer.from('again\r\n')])), '250 2.6.0');
	t.is(await bring(`fbl@${domain}`, Buffer.concat([large, Buffer.from('too much\r\n')])), '450 4.7.1', 'bytes');
	for (const n of [3, 4, 5]) {
		t.is(await bring(`fbl@${domain}`, `Subject: ${n}\r\n\r\nx\r\n`), '250 2.6.0');
	}
	t.is(await bring(`fbl@${domain}`, 'Subject: 6\r\n\r\nx\r\n'), '450 4.7.1', 'mails');
	t.is(await bring(`postmaster@${domain}`, 'Subject: hello\r\n\r\nx\r\n'), '250 2.6.0', 'another role');
	await allRead();
	const kept: Array<{raw: Buffer; size: number}> = await store.reader('inbound').where({kept: 'unmatched'});
	t.is(Math.max(...kept.map(({size}) => size)) > 900_000, true);
	t.is(Math.max(...kept.map(({raw}) => raw.length)), 256 * 1024);

	// One token, as often as anyone likes: few of them stay, and then no more is taken.
	const [first] = recipients;
	const bringAgain = (n: number) =>
		bring(first?.returnPath ?? '', bounceFor(first?.returnPath ?? '', first?.address ?? '', 1000 + n));
	for (let n = 0; n < 99; n++) {
		t.is(await bringAgain(n), '250 2.6.0', `${n}`);
	}
	await allRead(); // A mail counts for its copy once it is read, and the first one came to the feedback address.
	t.is(await bringAgain(99), '450 4.7.1');
	t.is((await store.reader('reports').where({recipient_id: first?.recipientId})).length, 20);
	t.is((await store.reader('inbound').where({kept: null})).length, 30 + 19);
});
