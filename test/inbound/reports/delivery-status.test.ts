import test from 'ava';
import fc from 'fast-check';
import {parseAddress, readDeliveryStatus} from '../../../src/inbound/reports/structured.ts';

const recipientsOf = (text: string) =>
	readDeliveryStatus(text).recipients.map(fields => Object.fromEntries(fields.map(({name, value}) => [name, value])));

const one = {'final-recipient': 'rfc822; a@x.example', action: 'failed', status: '5.1.1'};
const two = {'final-recipient': 'rfc822; b@x.example', action: 'delayed', status: '4.2.2'};

for (const [name, text] of [
	[
		'blocks',
		'Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; a@x.example\nAction: failed\nStatus: 5.1.1\n\nFinal-Recipient: rfc822; b@x.example\nAction: delayed\nStatus: 4.2.2\n',
	],
	[
		'one block that holds all',
		'Reporting-MTA: dns; mx\nFinal-Recipient: rfc822; a@x.example\nAction: failed\nStatus: 5.1.1\nFinal-Recipient: rfc822; b@x.example\nAction: delayed\nStatus: 4.2.2',
	],
	[
		'a blank line after every field',
		'Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; a@x.example\n\nAction: failed\n\nStatus: 5.1.1\n\nFinal-Recipient: rfc822; b@x.example\n\nAction: delayed\n\nStatus: 4.2.2',
	],
	[
		'blank lines that hold spaces, fields that are indented',
		'  Reporting-MTA: dns; mx\n \t\n  Final-Recipient: rfc822; a@x.example\n  Action: failed\n  Status: 5.1.1\n  \n  Final-Recipient: rfc822; b@x.example\n  Action: delayed\n  Status: 4.2.2',
	],
	[
		'names in any case, spaces before the colon',
		'REPORTING-MTA: dns; mx\n\nfinal-recipient : rfc822; a@x.example\nACTION:failed\nstatus:5.1.1\n\nFINAL-RECIPIENT:rfc822; b@x.example\nAction : delayed\nStatus:  4.2.2 ',
	],
] as const) {
	test(name, t => {
		t.deepEqual(recipientsOf(text), [one, two]);
		t.deepEqual(readDeliveryStatus(text).message, [{name: 'reporting-mta', value: 'dns; mx'}]);
	});
}

test('assigns an Original-Recipient to the recipient of the same block', t => {
	t.deepEqual(
		recipientsOf(
			'Final-Recipient: rfc822; a@x\nAction: failed\n\nOriginal-Recipient: rfc822; c@x\nFinal-Recipient: rfc822; b@x\nAction: failed\n',
		),
		[
			{'final-recipient': 'rfc822; a@x', action: 'failed'},
			{'original-recipient': 'rfc822; c@x', 'final-recipient': 'rfc822; b@x', action: 'failed'},
		],
	);
});

test('unfolds a diagnostic, even if its continuation lines are not indented', t => {
	const [fields] = recipientsOf(
		'Action: failed\nDiagnostic-Code: smtp; 550-5.1.1 no\n  such\n550 5.1.1 user here\nStatus: 5.1.1\n',
	);
	t.is(fields?.['diagnostic-code'], 'smtp; 550-5.1.1 no such 550 5.1.1 user here');
	t.is(fields?.status, '5.1.1');
});

test('reads at most 100 recipients and indicates that there are more', t => {
	const {recipients, isCut} = readDeliveryStatus('Final-Recipient: rfc822; a@x\nAction: failed\n\n'.repeat(101));
	t.is(recipients.length, 100);
	t.true(isCut);
	t.false(readDeliveryStatus('Final-Recipient: rfc822; a@x\nAction: failed\n\n'.repeat(100)).isCut);
});

for (const [value, address] of [
	['rfc822;a@x.example', 'a@x.example'],
	['RFC822 ; a@x.example', 'a@x.example'],
	['rfc822; <a@x.example>', 'a@x.example'],
	['<a@x.example>', 'a@x.example'],
	['rfc822; "Neko" <a@x.example> (Neko, the cat)', 'a@x.example'],
	['rfc822; a@x.example.', 'a@x.example'],
	["rfc822; o'brien+b=c@x.example", "o'brien+b=c@x.example"],
	['rfc822; "a b"@x.example', '"a b"@x.example'],
	['rfc822; a@[192.0.2.1]', 'a@[192.0.2.1]'],
	['rfc822; a+2Bb@x.example', 'a+b@x.example'],
	['utf-8; j\\x{f6}rg@x.example', 'jörg@x.example'],
	['utf-8;jörg@bücher.example', 'jörg@bücher.example'],
	['utf-8; \\x{110000}a@x.example', null],
	['rfc822; root', null],
	['rfc822;', null],
	['', null],
] as const) {
	test(`finds the address in ${value}`, t => {
		t.is(parseAddress(value), address);
	});
}

test('reads any delivery status without throwing', t => {
	const line = fc.constantFrom(
		'Final-Recipient: rfc822; a@x',
		'Action: failed',
		'Status: 5.0.0',
		'',
		' folded',
		'Reporting-MTA: dns; x',
		'::',
		'\\x{',
		'a',
	);
	fc.assert(
		fc.property(fc.array(fc.oneof(line, fc.string()), {maxLength: 400}), lines => {
			const {recipients} = readDeliveryStatus(lines.join('\n'));
			t.true(recipients.length <= 100 && recipients.every(fields => fields.length > 0 && fields.length <= 40));
		}),
	);
});
