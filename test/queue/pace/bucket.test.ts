import test from 'ava';
import fc from 'fast-check';
import {Bucket} from '../../../src/queue/pace/bucket.ts';

const minute = 60_000;

test('allows exactly the permitted number of messages in any minute', t => {
	fc.assert(
		fc.property(
			fc.integer({min: 1, max: 6000}),
			fc.array(fc.tuple(fc.integer({min: 1, max: 5000}), fc.integer({min: 1, max: 50})), {maxLength: 200}),
			(perMinute, steps) => {
				const bucket = new Bucket(perMinute);
				const taken: Array<{at: number; mails: number}> = [];
				let now = 0;
				for (const [wait, wanted] of steps) {
					now += wait;
					const mails = Math.min(wanted, bucket.left(now));
					bucket.take(mails, now);
					taken.push({at: now, mails});
				}
				return taken.every(({at}) => {
					const within = taken.filter(one => one.at >= at && one.at < at + minute);
					return within.reduce((sum, one) => sum + one.mails, 0) <= perMinute;
				});
			},
		),
	);
	for (const perMinute of [1, 7, 60, 90, 6000]) {
		const bucket = new Bucket(perMinute);
		let mails = 0;
		for (let now = 0; now < 10 * minute; now += 100) {
			const left = bucket.left(now);
			bucket.take(left, now);
			mails += left;
		}
		t.true(mails >= perMinute * 10 * 0.95, `${mails} at ${perMinute}`);
	}
});

test('allows the next message at the time announced', t => {
	fc.assert(
		fc.property(fc.integer({min: 1, max: 6000}), fc.integer({min: 0, max: 10 ** 9}), (perMinute, start) => {
			const bucket = new Bucket(perMinute);
			bucket.take(bucket.left(start), start);
			const next = bucket.nextAt(start);
			return next > start && bucket.left(next) >= 1;
		}),
	);
	t.pass();
});
