import test from 'ava';
import {clientOf, startMailHosts} from '../helpers/mail-hosts.ts';
import {waitFor} from '../helpers/wait.ts';

test('RFC 6532: an ASCII recipient needs SMTPUTF8 too if the headers have a non-ASCII address', async t => {
	const {program, host} = await startMailHosts(t, {
		'mx.ascii.example': {extensions: ['PIPELINING', '8BITMIME']},
		'mx.utf8.example': {extensions: ['PIPELINING', 'SMTPUTF8', '8BITMIME', 'DSN']},
	});
	const daemon = await program.serve();
	const {send, show} = await clientOf(program, daemon);
	const id = await send('jürgen@utf8.example', {cc: ['ann@ascii.example', 'bob@utf8.example']});
	const states = async () => (await show(id)).recipients.map(({address, state}) => `${address} ${state}`).toSorted();
	const all = ['ann@ascii.example bounced', 'bob@utf8.example delivered', 'jürgen@utf8.example delivered'];
	await waitFor('all copies are settled', async () => (await states()).join() === all.join());

	const said = host('mx.ascii.example').connections.flatMap(({commands}) => commands);
	t.deepEqual(
		said.filter(line => !/^(EHLO|QUIT)/.test(line)),
		[],
		'nothing of the mail is sent',
	);
	const commands = host('mx.utf8.example').connections.flatMap(connection => connection.commands);
	t.is(commands.filter(line => /^MAIL FROM:\S+ SMTPUTF8 /.test(line)).length, 2);
	t.true(commands.includes('RCPT TO:<bob@utf8.example> NOTIFY=FAILURE ORCPT=rfc822;bob@utf8.example'));
	t.is(await daemon.stop(), 0);
});
