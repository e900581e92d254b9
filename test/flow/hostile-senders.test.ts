import path from 'node:path';
import test from 'ava';
import {openStore} from '../../src/store/store.ts';
import {bounceFor} from '../bench/report-load.ts';
import {prepareProgram} from '../helpers/daemon.ts';
import {startFakeDns} from '../helpers/fake-dns.ts';
import {watchHealth} from '../helpers/health-watch.ts';
import {inboundPort, insertDeliveredIn} from '../helpers/sent-recipients.ts';
import {talkTo} from '../helpers/smtp-talk.ts';
import {waitFor} from '../helpers/wait.ts';

const bounces = 'bounces.shop.example';
const support = 'support@in.help.example';
const local = 'a'.repeat(64);

/** Splits text into strings of 255 octets, as in DNS. */
const record = (text: string): readonly string[] => text.match(/.{1,255}/g) ?? [];

const signature = (n: number): string =>
	`DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=d${n}.evil.test; s=s; h=from; bh=x; b=x`;
const signatures = [1, 2, 3, 4, 5].map(signature).join('\r\n');
const heavy = `${signatures}\r\nFrom: a@evil.test\r\n\r\n${'\t\n'.repeat(255 * 1024)}`;
const light = 'From: a@evil.test\r\nSubject: x\r\n\r\n.\r\n';

test('hostile messages and DNS records delay neither bounces nor responses of the daemon', async t => {
	const macros = (n: number) => ({txt: [record(`v=spf1 include:x.${'%{l}'.repeat(n)}_`)]});
	const dns = await startFakeDns(t, {
		'evil.test': macros(400),
		'evil2.test': macros(1600),
		'evil3.test': {txt: [record(`v=spf1 ${'exists:%{l1r-+,/_=}.test '.repeat(160)}`)]},
		'evil4.test': {txt: [record(`v=spf1 a:${'a'.repeat(60)}.${'%{h}.'.repeat(300)}test -all`)]},
		'evil5.test': {txt: [record(`v=spf1 redirect=${'%{d}'.repeat(700)}_`)]},
		'_dmarc.evil.test': {txt: [record(`v=DMARC1; p=none${'; a=b'.repeat(10_000)}`)]},
		's._domainkey.d1.evil.test': {txt: [record(`v=DKIM1; p=${'A'.repeat(20_000)}`)]},
	});
	const program = await prepareProgram(t, {
		...{
			MAILCTL_INBOUND_LISTEN: '127.0.0.1:0',
			MAILCTL_RETURN_PATH_DOMAIN: bounces,
			MAILCTL_DNS_SERVERS: dns.server,
		},
	});
	await program.cliBytes('init');
	const dataDir = path.join(program.folder, 'data');
	const recipients = await insertDeliveredIn(dataDir, ['ada@example.net', 'eve@example.net'], bounces);
	await program.cli('inbound', 'add', support, '--workspace', 'default');
	const {url} = await program.serve();
	const store = await openStore({file: path.join(dataDir, 'mailctl.db')});
	t.teardown(() => store.close());
	const talk = await talkTo(t, inboundPort(dataDir));
	await talk.reply();
	await talk.say('EHLO evil4.test');
	const bring = async (from: string, to: string, mail: string) => {
		await talk.say(`MAIL FROM:<${from}>`);
		await talk.say(`RCPT TO:<${to}>`);
		t.regex(await talk.data(mail), /^250/);
	};
	const unread = async () => (await store.reader('inbound').whereNull('read_at')).length;

	const health = await watchHealth(t, url);
	const readIn: number[] = [];
	for (const [n, recipient] of recipients.entries()) {
		const isAttacked = n > 0;
		for (const domain of isAttacked ? ['evil.test', 'evil2.test', 'evil3.test', 'evil4.test', 'evil5.test'] : []) {
			await bring(`${local}@${domain}`, support, `${light}${domain}${n}`);
		}
		for (const to of isAttacked ? ['dmarc', 'tlsrpt', 'fbl', 'postmaster', 'abuse'] : []) {
			await bring('a@evil.test', `${to}@${bounces}`, `${heavy}${n}${to}`);
			await bring('a@evil.test', support, `${heavy}${n}${to}`);
		}
		const began = performance.now();
		await bring('', recipient.returnPath, bounceFor(recipient.returnPath, recipient.address, n));
		await waitFor('the bounce is read', async () => (await store.reader('reports')).length === n + 1);
		readIn.push(performance.now() - began);
	}
	await waitFor('all is read', async () => (await unread()) === 0);
	const {longest} = await health.stop();
	t.log({longest, readIn});
	t.true(Math.max(...readIn) < 20_000);
	t.true(longest < 5000);
	const verdicts = await store.reader('received').pluck('summary');
	const found = verdicts.map(text => JSON.parse(text)).filter(({mailFrom}) => mailFrom.startsWith(local));
	t.deepEqual(found.map(({mailFrom, spf}) => `${mailFrom.slice(65)} ${spf.result}`).sort(), [
		...['evil.test permerror', 'evil2.test permerror', 'evil3.test permerror'],
		...['evil4.test permerror', 'evil5.test permerror'],
	]);
});
