import test from 'ava';
import fc from 'fast-check';
import {Dialogue} from '../../src/deliver/dialogue.ts';
import {anyChar} from '../helpers/any-char.ts';
import {startLab} from '../helpers/delivery-lab.ts';

/** A dialogue in which every entry comes 5 ms after the one before. */
function start(): Dialogue {
	let now = 100;
	return new Dialogue(() => {
		now += 5;
		return now;
	});
}

test('writes one line per entry with the time since the start', t => {
	const dialogue = start();
	t.is(dialogue.text(), null);
	dialogue.received({code: 220, lines: ['mx.test']});
	dialogue.sent('EHLO us.test\r\n');
	dialogue.received({code: 250, lines: ['mx.test', 'PIPELINING']});
	dialogue.sent('MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n');
	dialogue.sent(Buffer.alloc(4000));
	dialogue.sent(Buffer.alloc(321));
	dialogue.noted('the server closed the connection');
	t.deepEqual(dialogue.text()?.split('\n'), [
		'     5 S: 220 mx.test',
		'    10 C: EHLO us.test',
		'    15 S: 250-mx.test',
		'    15 S: 250 PIPELINING',
		'    20 C: MAIL FROM:<a@b.test>',
		'    20 C: RCPT TO:<c@d.test>',
		'    20 C: DATA',
		'    25 C: (4321 octets)',
		'    30 *: the server closed the connection',
	]);
	dialogue.begin();
	t.is(dialogue.text(), null);
	dialogue.sent('RSET\r\n');
	t.is(dialogue.text(), '     5 C: RSET');
});

test('masks credentials and leaves out replies to AUTH', t => {
	const dialogue = start();
	dialogue.sent('AUTH PLAIN AGhlbGxvAHNlY3JldA==\r\n');
	dialogue.received({code: 535, lines: ['no']});
	dialogue.sent('AUTH LOGIN\r\n');
	dialogue.received({code: 334, lines: ['VXNlcm5hbWU6']});
	dialogue.sent('aGVsbG8=\r\n');
	dialogue.received({code: 334, lines: ['UGFzc3dvcmQ6']});
	dialogue.sent('c2VjcmV0\r\n');
	dialogue.received({code: 235, lines: ['ok']});
	dialogue.sent('MAIL FROM:<>\r\n');
	const said = (dialogue.text() ?? '').split('\n').flatMap(line => / C: (.*)/.exec(line)?.[1] ?? []);
	t.deepEqual(said, ['AUTH PLAIN ****', 'AUTH LOGIN', '****', '****', 'MAIL FROM:<>']);
});

test('keeps the beginning and the end of a long dialogue', t => {
	const dialogue = start();
	dialogue.received({code: 220, lines: ['first']});
	dialogue.received({code: 250, lines: Array.from({length: 500}, (_, n) => `line ${n} ${'é'.repeat(20)}`)});
	dialogue.received({code: 550, lines: ['last']});
	const text = dialogue.text() ?? '';
	t.true(Buffer.byteLength(text) <= 4096);
	t.true(Buffer.byteLength(text) > 3900);
	t.regex(text, /^ {5}5 S: 220 first\n/);
	t.regex(text, /\n {5}…\n/);
	t.regex(text, / S: 550 last$/);
});

test('is always printable and at most 4 KB', t => {
	const entry = fc.oneof(
		fc.record({said: fc.oneof(fc.string({unit: anyChar}), fc.uint8Array())}),
		fc.record({
			code: fc.integer({min: 200, max: 599}),
			lines: fc.array(fc.string({unit: anyChar, maxLength: 9000})),
		}),
		fc.record({noted: fc.string({unit: anyChar, maxLength: 2000})}),
	);
	const property = fc.property(fc.array(entry, {maxLength: 40}), entries => {
		const dialogue = start();
		for (const one of entries) {
			if ('said' in one) {
				dialogue.sent(one.said);
			} else if ('noted' in one) {
				dialogue.noted(one.noted);
			} else {
				dialogue.received(one);
			}
		}

		const text = dialogue.text() ?? '';
		return Buffer.byteLength(text) <= 4096 && !/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/.test(text);
	});
	t.notThrows(() => fc.assert(property));
});

for (const extensions of [['PIPELINING'], []]) {
	test(`stores the dialogue of a refused message, not of an accepted one (${extensions[0] ?? 'lock-step'})`, async t => {
		const lab = await startLab(t, [{extensions, rcpt: ['250 ok', '550 5.1.1 no such user\nask our page']}], {
			limit: 1,
		});
		const accepted = await lab.deliver();
		t.is(accepted.attempts[0]?.dialogue, null);
		const {attempts} = await lab.deliver();
		const lines = (attempts[0]?.dialogue ?? '').split('\n').map(line => line.slice(7));
		// Of grouped commands the reply to DATA may have come along.
		t.deepEqual(lines.slice(0, 6), [
			'C: MAIL FROM:<bounce@mail.test>',
			...(extensions.length > 0 ? ['C: RCPT TO:<user@example.test>', 'C: DATA'] : []),
			'S: 250 2.1.0 Ok',
			...(extensions.length > 0 ? [] : ['C: RCPT TO:<user@example.test>']),
			'S: 550-5.1.1 no such user',
			'S: 550 ask our page',
		]);
	});
}

test('records the dialogue with a mail server that refuses the session or drops the connection', async t => {
	const lab = await startLab(t, [{greeting: '554 5.7.1 go away'}, {dot: {do: 'drop'}}]);
	const {attempts} = await lab.deliver({data: Buffer.from('Subject: x\r\n\r\nhello\r\n')});
	const said = attempts.map(({dialogue}) => (dialogue ?? '').split('\n').map(line => line.slice(7)));
	t.deepEqual(said[0]?.slice(0, 2), ['S: 554 5.7.1 go away', 'C: QUIT']);
	t.deepEqual(said[1]?.slice(-3), [
		'S: 354 End data with <CR><LF>.<CR><LF>',
		'C: (24 octets)',
		'*: the server closed the connection',
	]);
});

test('never contains a relay’s credentials', async t => {
	for (const extensions of ['AUTH PLAIN', 'AUTH LOGIN']) {
		const login = {user: 'the-user', password: 'the-password'};
		const refusing = {
			extensions: [extensions],
			auth: extensions === 'AUTH PLAIN' ? '535 5.7.8 no' : '334 VXNlcm5hbWU6',
			credentials: ['334 UGFzc3dvcmQ6', '535 5.7.8 no'],
		};
		const lab = await startLab(t, [refusing]);
		const {host = '', port = 0} = lab.hosts[0] ?? {};
		const relays = [{host, port, tls: 'none' as const, secure: false, ...login}];
		const relaying = await startLab(t, [], {terms: {nextHop: {kind: 'relay', relays, acceptMeans: 'sent'}}});
		const {attempts} = await relaying.deliver();
		const dialogue = attempts[0]?.dialogue ?? '';
		t.regex(dialogue, /C: AUTH (PLAIN \*{4}|LOGIN\n)/);
		t.regex(dialogue, /S: 535 5\.7\.8 no/);
		for (const secret of [
			Buffer.from('the-password'),
			Buffer.from('\0the-user\0the-password'),
			Buffer.from('the-user'),
		]) {
			t.false(dialogue.includes(secret.toString('base64')), dialogue);
		}
	}
});
