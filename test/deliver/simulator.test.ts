import test from 'ava';
import {simulate, simulatedReply, simulatorKind, simulatorKinds} from '../../src/deliver/local-delivery.ts';
import {startLab} from '../helpers/delivery-lab.ts';

test('the local part selects the outcome, a +label is ignored, other addresses are delivered', t => {
	for (const kind of simulatorKinds) {
		t.is(simulatorKind(`${kind}@simulator.test`), kind);
		t.is(simulatorKind(`${kind.toUpperCase()}+any.thing@SIMULATOR.test`), kind);
		t.is(simulatorKind(`${kind}@example.test`), 'delivered');
	}

	t.is(simulatorKind('someone@simulator.test'), 'delivered');
});

const outcomes = {
	delivered: ['delivered'],
	bounced: ['bounced'],
	'soft-bounced': ['deferred', 'deferred', 'bounced'],
	deferred: ['deferred', 'deferred', 'delivered'],
	complained: ['delivered'],
	suppressed: ['suppressed'],
	errored: ['errored'],
	opened: ['delivered'],
	clicked: ['delivered'],
} as const;
for (const kind of simulatorKinds) {
	test(`${kind}: ${outcomes[kind].join(', ')}`, t => {
		t.deepEqual(
			outcomes[kind].map((_, n) => simulate(kind, n + 1).kind),
			[...outcomes[kind]],
		);
	});
}

test('a hard bounce suppresses, a soft one does not; retries wait a second', t => {
	t.like(simulate('bounced', 1), {type: 'permanent', suppresses: true});
	t.like(simulate('soft-bounced', 3), {type: 'transient', suppresses: false});
	t.like(simulate('deferred', 1), {waitMs: 1000});
});

test('simulated messages never leave the machine, in any mode', async t => {
	const lab = await startLab(t, [{}]);
	const live = await lab.deliver({
		destination: 'simulator.test',
		envelope: {from: 'b@mail.test', to: 'bounced@simulator.test', smtputf8: false},
	});
	t.is(live.outcome.kind, 'bounced');
	t.truthy(live.sentAt);
	t.deepEqual((await lab.deliver({isSimulated: true})).outcome, {kind: 'delivered'});
	t.is(lab.hosts[0]?.connections.length, 0);
	t.deepEqual(lab.dns.queries, []);
});

test('a simulated attempt has a reply, unless it never reached a mail server', t => {
	t.like(simulatedReply(simulate('deferred', 1)), {
		code: 451,
		enhanced: '4.7.1',
		text: '4.7.1 simulated: try again later',
	});
	t.like(simulatedReply(simulate('bounced', 1)), {code: 550, enhanced: '5.1.1'});
	t.like(simulatedReply(simulate('delivered', 1)), {code: 250, enhanced: '2.0.0'});
	t.is(simulatedReply(simulate('errored', 1)), null);
});
