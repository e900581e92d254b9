import test from 'ava';
import {trustedReporter} from '../../src/inbound/reading.ts';
import {complaint, reading} from '../helpers/reports.ts';

test('a feedback report counts by a trusted reporter that signed it, and by nobody else', t => {
	const reporters = ['arf.reporter.test'];
	const by = (signers: string[], more: object = {}) =>
		trustedReporter(reporters, reading([complaint], {kind: 'arf', signers, ...more}));
	t.is(by(['other.test', 'arf.reporter.test']), 'arf.reporter.test');
	t.is(by(['other.test', 'sub.arf.reporter.test']), null);
	t.is(by([]), null);
	t.is(by(reporters, {kind: 'dsn'}), null);
	t.is(by(reporters, {forwarded: true}), null);
});
