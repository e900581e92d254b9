import test from 'ava';
import {trustedReporter} from '../../src/inbound/reading.ts';
import {complaint, reading} from '../helpers/reports.ts';

test('accepts a feedback report only if a trusted reporter signed it', t => {
	const reporters = ['arf.reporter.test'];
	const by = (signers: string[], more: object = {}) =>
		trustedReporter(reporters, reading([complaint], {kind: 'arf', signers, ...more}));
	t.is(by(['other.test', 'arf.reporter.test']), 'arf.reporter.test');
	t.is(by(['other.test', 'sub.arf.reporter.test']), null);
	t.is(by([]), null);
	t.is(by(reporters, {kind: 'dsn'}), null);
	t.is(by(reporters, {forwarded: true}), null);
});
