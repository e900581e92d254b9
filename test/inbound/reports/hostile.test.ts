import {execFile} from 'node:child_process';
import {resolve} from 'node:path';
import {promisify} from 'node:util';
import test from 'ava';
import fc from 'fast-check';
import {anyChar} from '../../helpers/any-char.ts';
import {evilMail} from '../../helpers/evil-mails.ts';
import {hostileMails} from '../../helpers/hostile-mails.ts';
import {type Cost, maxMs} from '../../helpers/read-hostile.ts';
import {dsnOf, mailOf, multipartOf, read} from '../../helpers/report-mails.ts';

const megabyte = 1024 * 1024;

test('reads a hostile 10 MB message in little time, under 100 MB of memory and with short results', async t => {
	t.timeout(300_000);
	const program = resolve('dist/test/helpers/read-hostile.js');
	const {stdout} = await promisify(execFile)(process.execPath, ['--expose-gc', program], {maxBuffer: megabyte});
	const costs = stdout
		.trim()
		.split('\n')
		.map(line => JSON.parse(line) as Cost);
	t.is(costs.length, hostileMails.length);
	const dear = costs.filter(({ms, bytes, output}) => ms > maxMs || bytes > 100 * megabyte || output > 512 * 1024);
	t.deepEqual(dear, []);
});

const words = [
	'Final-Recipient: rfc822; neko@mx.example',
	'Original-Recipient: rfc822;',
	'Action: failed',
	'Action: ',
	'Status: 5.1.1',
	'Status: 2.0.0',
	'Diagnostic-Code: smtp; 550 5.1.1 User unknown',
	'Diagnostic-Code: smtp; 550 5.1.351 Remote server returned x ->',
	'Remote-MTA: dns; mx.example',
	'Feedback-Type: abuse',
	'Feedback-Type: opt-out',
	'Version: 1',
	'Original-Rcpt-To: neko@mx.example',
	'Original-Mail-From: <b0@x>',
	'X-HmXmrOriginalRecipient: neko@mx.example',
	'X-Failed-Recipients: neko@mx.example',
	'Subject: unsubscribe',
	'Subject: Undelivered Mail Returned to Sender',
	'From: MAILER-DAEMON@mx.example',
	'To: neko@mx.example',
	'Message-ID: <m0@x>',
	'List-Unsubscribe: <mailto:u0@x>',
	'Content-Type: multipart/report; boundary=b',
	'Content-Type: message/delivery-status',
	'Content-Type: message/feedback-report',
	'Content-Type: message/rfc822',
	'Content-Type: text/html',
	'Content-Transfer-Encoding: base64',
	'--b',
	'--b--',
	'',
	'',
	' folded',
	'<neko@mx.example>: host mx.example[192.0.2.1] said: 550 5.1.1 unknown (in reply to RCPT TO command)',
	'   ----- Transcript of session follows -----',
	'>>> RCPT To:<neko@mx.example>',
	'<<< 550 5.1.1 unknown',
	'Hi. This is the qmail-send program at mx.example.',
	'{"notificationType":"Bounce","bounce":{"bouncedRecipients":[{"emailAddress":"a@b"}]}}',
];

test('reads any message without throwing, with short texts, and suppresses only on a failure or complaint', t => {
	const line = fc.oneof({weight: 6, arbitrary: fc.constantFrom(...words)}, fc.string({unit: anyChar, maxLength: 30}));
	fc.assert(
		fc.property(fc.array(line, {maxLength: 60}), fc.constantFrom('\n', '\r\n', '\r'), (lines, end) => {
			const {reports, clues} = read(Buffer.from(lines.join(end)));
			t.true(reports.length <= 100);
			for (const {action, suppresses, type, category, reason, recipient} of reports) {
				t.true(reason.length <= 1024 && (recipient ?? '').length <= 320);
				t.true(!suppresses || action === 'complaint' || (action === 'failed' && type === 'permanent'));
				t.is(type === 'none', category === null);
				t.true(type !== 'none' || (action !== 'failed' && action !== 'delayed'));
			}
			t.true(Object.values(clues).every(list => list.length <= 20 && list.every(each => each.length <= 320)));
		}),
		{numRuns: 500},
	);
});

const actions = ['failed', 'delayed', 'delivered', 'relayed', 'expanded', 'complaint', 'unsubscribe', 'none'];

test('reads any message built to break the parser into short texts and valid codes', t => {
	fc.assert(
		fc.property(evilMail, raw => {
			const reading = read(raw);
			t.deepEqual(structuredClone(reading), reading);
			for (const {action, type, code, status, recipient, originalRecipient, host, reason} of reading.reports) {
				t.true(actions.includes(action));
				t.true(type === 'permanent' || type === 'transient' || type === 'none');
				t.true(code === null || (code >= 200 && code <= 599));
				t.true(status === null || /^[245]\.\d{1,3}\.\d{1,3}$/.test(status));
				const texts = [recipient, originalRecipient, host, reason].filter(each => each !== null);
				t.true(texts.every(each => each.length <= 1024));
			}
		}),
		{numRuns: 300},
	);
	t.deepEqual(Object.keys(Object.prototype), []);
});

const diagnostic = 'Final-Recipient: rfc822; neko@mx.example\nAction: failed\nStatus: 5.1.1\n';
const rights = [
	dsnOf(diagnostic, '<neko@mx.example>: host mx.example[192.0.2.1] said: 550 5.1.1 User unknown'),
	multipartOf({
		parts: [
			'Content-Type: message/feedback-report\n\nFeedback-Type: abuse\nVersion: 1\nOriginal-Rcpt-To: neko@mx.example\n',
		],
	}),
	mailOf(
		'From: MAILER-DAEMON@mx.example',
		'Subject: failure notice',
		'',
		'Hi. This is the qmail-send program.',
		'',
		'<neko@mx.example>:',
		'192.0.2.1 does not like recipient.',
	),
];

test('reads a valid report with bytes changed anywhere', t => {
	const change = fc.tuple(fc.nat(), fc.uint8Array({maxLength: 4}), fc.nat({max: 4}));
	fc.assert(
		fc.property(fc.constantFrom(...rights), fc.array(change, {maxLength: 8}), (raw, changes) => {
			const changed = changes.reduce((bytes, [place, put, cut]) => {
				const at = place % bytes.length;
				return Buffer.concat([bytes.subarray(0, at), put, bytes.subarray(at + cut)]);
			}, raw);
			t.true(read(changed).reports.length <= 100);
		}),
		{numRuns: 500},
	);
});

test('does not confuse values in a message with the built-in properties of objects', t => {
	for (const name of ['constructor', '__proto__', 'toString', 'hasOwnProperty']) {
		const feedback = multipartOf({
			parts: [
				`Content-Type: message/feedback-report\n\nFeedback-Type: ${name}\nVersion: 1\nOriginal-Rcpt-To: neko@mx.example\n`,
			],
		});
		const category = dsnOf(
			`Reporting-MTA: dns; mx.example\n\nFinal-Recipient: rfc822; neko@mx.example\nAction: failed\nStatus: 5.0.0\nX-PowerMTA-BounceCategory: ${name}`,
		);
		for (const mail of [feedback, category]) {
			t.deepEqual(structuredClone(read(mail)), read(mail), name);
		}
	}
});
