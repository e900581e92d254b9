import test from 'ava';
import {dkimVerify} from 'mailauth/lib/dkim/verify.js';
import {clientOf, headerOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {waitFor} from '../helpers/wait.ts';

type DomainView = {
	readonly records: ReadonlyArray<{readonly purpose: string; readonly name: string; readonly value: string}>;
};

const fields = (mail: Uint8Array) => {
	const text = Buffer.from(mail).toString('latin1');
	return text.slice(0, text.indexOf('\r\n\r\n')).split(/\r\n(?![ \t])/);
};

test('signs headers for opt-outs and complaints; without an inbound listener only the unsubscribe link', async t => {
	const {program, host} = await startMailHosts(t, {'mx.a.example': {}});
	const daemon = await program.serve({
		MAILCTL_INBOUND_LISTEN: '127.0.0.1:0',
		MAILCTL_CFBL: 'true',
		MAILCTL_SENDER_ID: 'shopmail',
	});
	const {send, until} = await clientOf(program, daemon);
	await program.cli('sender', 'add', 'orders@shop.example', '--verified');
	await program.cli('topic', 'create', '--code', 'news', '--name', 'News');
	const own = await send('ann@a.example', {
		from: 'orders@shop.example',
		unsubscribeGroup: 'news',
		cc: ['bob@a.example'],
	});
	const foreign = await send('cat@a.example');
	await until(own, 'delivered');
	await until(foreign, 'delivered');
	const {received} = host('mx.a.example');
	// The state is that of `to`; the copy of `cc` may be on its way.
	await waitFor('three mails', () => received.length === 3);
	const mailTo = (to: string) =>
		received.find(mail => mail.to.some(address => address.includes(to)))?.data ?? Buffer.of();
	const [ann, cat] = [mailTo('ann@'), mailTo('cat@')];

	const ids = /^(tpl_\w{26}):(ws_\w{26}):news:shopmail$/;
	t.regex(headerOf(ann, 'Feedback-ID'), ids);
	t.is(headerOf(mailTo('bob@'), 'Feedback-ID'), headerOf(ann, 'Feedback-ID'), 'no per-recipient value');
	t.regex(headerOf(cat, 'Feedback-ID'), /^tpl_\w{26}:ws_\w{26}:transactional:shopmail$/);
	t.is(fields(ann).filter(field => /^feedback-id:/i.test(field)).length, 1);

	t.is(headerOf(ann, 'CFBL-Address'), 'fbl@bounce.shop.example; report=arf');
	t.is(headerOf(ann, 'CFBL-Feedback-ID'), headerOf(ann, 'X-Mailctl-Ref'));
	t.is(headerOf(cat, 'CFBL-Address'), '', 'example.com cannot vouch for bounce.shop.example');

	const unsubscribe =
		/^<https:\/\/mail\.shop\.example\/unsubscribe\?token=[\w-]+>, <mailto:(u[0-9a-z]{44})@bounce\.shop\.example\?subject=unsubscribe>$/;
	const [, address] = unsubscribe.exec(headerOf(ann, 'List-Unsubscribe')) ?? [];
	t.truthy(address, headerOf(ann, 'List-Unsubscribe'));
	t.not(unsubscribe.exec(headerOf(mailTo('bob@'), 'List-Unsubscribe'))?.[1], address, 'each copy has its own');
	t.is(headerOf(ann, 'List-Unsubscribe-Post'), 'List-Unsubscribe=One-Click');
	t.true(
		ann
			.toString('latin1')
			.split('\r\n')
			.every(line => line.length <= 998),
	);

	const {records} = await program.cli<DomainView>('domain', 'show', 'shop.example');
	const {results} = await dkimVerify(ann, {
		resolver: async name => records.filter(record => record.name === name).map(({value}) => [value]),
	});
	t.is(results.length, 2);
	for (const {status, signingDomain} of results) {
		t.is(status.result, 'pass');
		t.is(signingDomain, 'shop.example');
	}
	const signatures = fields(ann).filter(field => field.startsWith('DKIM-Signature:'));
	t.is(signatures.length, 2);
	for (const signature of signatures) {
		const covered = /\bh=([^;]+);/.exec(signature.replace(/\s/g, ''))?.[1]?.toLowerCase().split(':') ?? [];
		for (const name of [
			'feedback-id',
			'cfbl-address',
			'cfbl-feedback-id',
			'list-unsubscribe',
			'list-unsubscribe-post',
		]) {
			t.is(covered.filter(one => one === name).length, 2, `${name}: nobody can add another`);
		}
	}
	t.is(await daemon.stop(), 0);

	// Where nobody reads mail that comes back, only the link unsubscribes.
	const deaf = await program.serve();
	const client = await clientOf(program, deaf);
	await client.until(await client.send('dan@a.example'), 'delivered');
	const dan = mailTo('dan@');
	t.regex(headerOf(dan, 'List-Unsubscribe'), /^<https:[^<>]+>$/);
	t.regex(headerOf(dan, 'Feedback-ID'), /^tpl_\w{26}:ws_\w{26}:transactional:mc[0-9a-f]{10}$/);
	t.is(await deaf.stop(), 0);
});
