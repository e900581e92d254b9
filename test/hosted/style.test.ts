import test from 'ava';
import fc from 'fast-check';
import {accentOn, contrast} from '../../src/hosted/branded-page.ts';

const surfaces = {light: ['#f4f5f7', '#ffffff'], dark: ['#101216', '#191c22']} as const;
const colour = fc.integer({min: 0, max: 0xffffff}).map(number => `#${number.toString(16).padStart(6, '0')}`);

test('computes contrast ratios of WCAG', t => {
	t.is(contrast('#000000', '#ffffff'), 21);
	t.is(contrast('#777777', '#777777'), 1);
	t.is(contrast('#767676', '#ffffff').toFixed(2), '4.54');
	t.is(contrast('#ff0000', '#ffffff').toFixed(2), '4.00');
});

test('keeps an accent color with enough contrast', t => {
	t.deepEqual(accentOn(surfaces.light, '#0a7d4f'), {fill: '#0a7d4f', onFill: '#ffffff', link: '#0a7d4f'});
	t.like(accentOn(surfaces.dark, '#ffd400'), {fill: '#ffd400', onFill: '#000000', link: '#ffd400'});
});

for (const [scheme, list] of Object.entries(surfaces)) {
	test(`any accent color yields visible, readable buttons, labels and links: ${scheme}`, t => {
		fc.assert(
			fc.property(colour, accent => {
				const {fill, onFill, link} = accentOn(list, accent);
				t.true(contrast(fill, onFill) >= 4.5);
				for (const surface of list) {
					t.true(contrast(fill, surface) >= 3);
					t.true(contrast(link, surface) >= 4.5);
				}
			}),
			{examples: [['#ffffff'], ['#000000'], ['#767676'], ['#ffff00']]},
		);
	});
}
