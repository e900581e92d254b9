import test from 'ava';
import {findAddresses} from '../../src/report/addresses-in-text.ts';

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
	['an @ alone, a@ and @b', []],
	['a@b@c', ['a@b']],
];

for (const [text, addresses] of cases) {
	test(`findAddresses: ${text}`, t => {
		t.deepEqual(
			findAddresses(text).map(({address}) => address),
			addresses,
		);
	});
}
