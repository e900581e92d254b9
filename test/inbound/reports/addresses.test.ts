import test from 'ava';
import {findAddresses} from '../../../src/inbound/reports/addresses-in-text.ts';

const cases: ReadonlyArray<readonly [string, readonly string[]]> = [
	['neko@example.org', ['neko@example.org']],
	['<neko@example.org>: gone.', ['neko@example.org']],
	['"neko@example.org"', ['neko@example.org']],
	["'neko@example.org'.", ['neko@example.org']],
	['(neko@example.org)', ['neko@example.org']],
	['rfc822;neko@example.org', ['neko@example.org']],
	['smtp:neko@example.org, mailto:inu@example.org', ['neko@example.org', 'inu@example.org']],
	['dda:SMTP=neko@example.org; on Thu', ['neko@example.org']],
	['neko@example.org... User unknown', ['neko@example.org']],
	['To: Neko <neko+a.b-c@sub.example.org>', ['neko+a.b-c@sub.example.org']],
	['"neko inu"@example.org', ['"neko inu"@example.org']],
	['neko@[192.0.2.1] gone', ['neko@[192.0.2.1]']],
	['ねこ@例え.example', ['ねこ@例え.example']],
	['宛先neko@example.jpには', ['neko@example.jp']],
	['<=neko@example.org>', ['=neko@example.org']],
	["<'neko@example.org>", ["'neko@example.org"]],
	["<'neko@example.org'>", ['neko@example.org']],
	['neko_@example.org: gone', ['neko_@example.org']],
	['<neko@example.org_>', ['neko@example.org_']],
	['🐱@example.org', ['🐱@example.org']],
	['To 👩‍💻.neko@example.org.', ['👩‍💻.neko@example.org']],
	['<🐱@example.org>', ['🐱@example.org']],
	['neko@猫cafe.example.jpに', ['neko@猫cafe.example.jp']],
	['neko@shop株式会社.jp', ['neko@shop株式会社.jp']],
	['neko@ガレージ.テスト', ['neko@ガレージ.テスト']],
	['<ねこ1@例え.example>', ['ねこ1@例え.example']],
	['neko@ไทย.example', ['neko@ไทย.example']],
	['an @ alone, a@ and @b', []],
	['a@b@c', ['a@b']],
	['550 <p@>>> RCPT To:<', []],
];

for (const [text, addresses] of cases) {
	test(`findAddresses: ${text}`, t => {
		t.deepEqual(
			findAddresses(text).map(({address}) => address),
			addresses,
		);
	});
}
