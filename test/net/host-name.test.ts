import test from 'ava';
import fc from 'fast-check';
import {hostName} from '../../src/net/host-name.ts';
import {anyChar} from '../helpers/any-char.ts';

const cases: Array<[string, string | undefined]> = [
	['Mail.Example', 'mail.example'],
	['box', 'box'],
	['post_fix', 'post_fix'],
	['bücher.example', 'xn--bcher-kva.example'],
	['ＭＡＩＬ.example', 'mail.example'],
	['bücher。example', 'xn--bcher-kva.example'],
	['mail．example｡jp', 'mail.example.jp'],
	['', undefined],
	['.', undefined],
	['mail.', undefined],
	['mail..example', undefined],
	['mail.example\r\n', undefined],
	['mail\u00ad.example', undefined],
	['mail%2eexample', undefined],
	['mail.example/x', undefined],
	['mail.example:25', undefined],
	['127.0.0.1', undefined],
	['127。0。0。1', undefined],
	['mail。。example', undefined],
	['。', undefined],
	['127.1', undefined],
	['0x7f.1', undefined],
	['2130706433', undefined],
	['mail.1', undefined],
	['::1', undefined],
];
for (const [text, name] of cases) {
	test(`host name ${JSON.stringify(text)}`, t => {
		t.is(hostName(text), name);
	});
}

test('normalizes any text to a host name that is already normalized, or to nothing', t => {
	fc.assert(
		fc.property(fc.oneof(fc.string({unit: anyChar}), fc.domain()), text => {
			const name = hostName(text);
			t.true(name === undefined || (/^[a-z0-9_.-]+$/.test(name) && hostName(name) === name));
		}),
	);
});
