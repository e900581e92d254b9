import test from 'ava';
import {mailOf, read} from '../../helpers/report-mails.ts';

for (const subject of ['unsubscribe', 'Unsubscribe', '=?utf-8?q?unsubscribe?=', '<unsubscribe>', 'opt-out']) {
	test(`reads a message with the subject ${subject} as an unsubscribe request`, t => {
		const {kind, reports} = read(mailOf('From: Neko <neko@mx.example>', `Subject: ${subject}`, '', 'by iCloud'));
		t.is(kind, 'other');
		t.is(reports.length, 1);
		t.like(reports[0], {recipient: 'neko@mx.example', action: 'unsubscribe', type: 'none', suppresses: false});
	});
}

test('reads a message with Apple’s field as an unsubscribe request, whatever its subject and marking', t => {
	const raw = mailOf(
		'From: neko@mx.example',
		'X-Apple-Unsubscribe: true',
		'Auto-Submitted: auto-replied',
		'Subject: x',
		'',
		'',
	);
	t.like(read(raw).reports[0], {recipient: 'neko@mx.example', action: 'unsubscribe'});
});

test('accepts an unsubscribe request that is marked as an automatic reply', t => {
	const raw = mailOf('From: neko@mx.example', 'Auto-Submitted: auto-replied', 'Subject: unsubscribe', '', '');
	t.like(read(raw), {kind: 'other', reports: [{action: 'unsubscribe'}]});
	const other = mailOf('From: neko@mx.example', 'Auto-Submitted: auto-replied', 'Subject: Re: unsubscribe', '', '');
	t.like(read(other), {kind: 'auto_reply', reports: [{action: 'none'}]});
});

test('does not unsubscribe a person who only writes about unsubscribing', t => {
	for (const subject of ['How do I unsubscribe?', 'Re: your unsubscribe link', 'x']) {
		t.deepEqual(read(mailOf('From: neko@mx.example', `Subject: ${subject}`, '', 'unsubscribe')).reports, []);
	}
});
