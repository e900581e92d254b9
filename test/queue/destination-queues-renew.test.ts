import test from 'ava';
import {routeTo} from '../helpers/routes.ts';
import {at, key, queuesOf} from './on-queues.ts';

test('looks up a route again if its lookup began before routes changed', t => {
	const queues = queuesOf();
	queues.arrived(key('a.test'), at(0));
	const queue = queues.nextToFind(true);
	if (!queue) {
		t.fail('no route is to be found');
		return;
	}
	const {renewals} = queues;
	queues.renew(at(1));
	t.is(queues.nextToFind(true), undefined, 'its look-up is under way');
	queues.placed(queue, routeTo('former'), at(2), renewals);
	t.is(queues.nextToFind(true), queue);
	queues.placed(queue, routeTo('relay'), at(3), queues.renewals);
	t.deepEqual(
		queues.permits(at(3)).map(({site}) => site.name),
		['relay'],
	);
});
