// Draws the charts of a page from the data in their elements. The tables beside them contain the same figures.
(() => {
	const drawn = new Map();
	const dashes = {dashed: [6, 4], dotted: [2, 3]};
	const months = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

	const color = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

	function formatTime(seconds, daily, isFull) {
		const date = new Date(seconds * 1000);
		const day = `${date.getUTCDate()} ${months[date.getUTCMonth()]}`;
		const hour = `${String(date.getUTCHours()).padStart(2, '0')}:00`;
		if (daily) {
			return day;
		}
		if (isFull) {
			return `${day} ${hour}`;
		}
		return hour === '00:00' ? day : hour;
	}

	function formatValue(value, unit) {
		if (value === null || value === undefined) {
			return '–';
		}
		return unit === 'count'
			? value.toLocaleString('en')
			: `${Number((value * 100).toFixed(value < 0.01 ? 2 : 1))} %`;
	}

	/** Returns the value under the pointer, or the newest one if there is no pointer. */
	const pointedValue = (plot, value, series, index) => (index == null ? plot.data[series].at(-1) : value);

	function options({unit, daily, times, series}, width) {
		const axis = {
			stroke: color('soft'),
			grid: {stroke: color('line'), width: 1},
			ticks: {show: false},
			font: `12px ${getComputedStyle(document.body).fontFamily}`,
		};
		const day = 86_400;
		const hour = 3600;
		return {
			width,
			height: 240,
			tzDate: seconds => uPlot.tzDate(new Date(seconds * 1000), 'Etc/UTC'),
			padding: [12, 12, 0, 0],
			cursor: {y: false, points: {size: 7}, drag: {setScale: false, x: false, y: false}},
			// Half a step on both sides, so that the first and the last bar are complete.
			scales: {
				x: {range: (_, min, max) => [min - (daily ? day : hour) / 2, max + (daily ? day : hour) / 2]},
				y: {range: (_, _min, max) => [0, Math.max(max * 1.08, unit === 'count' ? 4 : 0)]},
			},
			axes: [
				{
					...axis,
					grid: {show: false},
					size: 30,
					space: 56,
					incrs: daily
						? [day, 2 * day, 5 * day, 7 * day]
						: [hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day],
					values: (_, splits) => splits.map(seconds => formatTime(seconds, daily, false)),
				},
				{
					...axis,
					size: 56,
					space: 40,
					incrs:
						unit === 'count'
							? [0, 1, 2, 3, 4, 5, 6, 7].flatMap(p => [1, 2, 5].map(n => n * 10 ** p))
							: undefined,
					values: (_, splits) => splits.map(value => formatValue(value, unit)),
				},
			],
			series: [
				{label: 'UTC', value: (...args) => formatTime(pointedValue(...args), daily, true)},
				...series.map(({label, tone, look, isLimit}) => ({
					label,
					stroke: color(tone),
					fill: look === 'bars' ? color(`${tone}-soft`) : undefined,
					paths: look === 'bars' ? uPlot.paths.bars({size: [0.8, 40]}) : undefined,
					width: look === 'bars' ? 1 : 2,
					dash: dashes[look],
					points: {show: !isLimit && look !== 'bars' && times.length < 40, size: 5},
					value: (...args) => formatValue(pointedValue(...args), unit),
				})),
			],
		};
	}

	/** Draws a chart, unless it was drawn with the same figures already. `isForced` redraws it in new colors. */
	function draw(element, isForced) {
		const known = drawn.get(element);
		const {chart} = element.dataset;
		element.hidden = false;
		if (known?.chart === chart && !isForced) {
			return;
		}
		known?.plot.destroy();
		const data = JSON.parse(chart);
		const columns = [data.times, ...data.series.map(({values}) => values)];
		drawn.set(element, {chart, plot: new uPlot(options(data, element.clientWidth), columns, element)});
		sizes.observe(element);
	}

	const sizes = new ResizeObserver(entries => {
		for (const {target, contentRect} of entries) {
			const plot = drawn.get(target)?.plot;
			if (plot && contentRect.width > 0 && plot.width !== Math.floor(contentRect.width)) {
				plot.setSize({width: Math.floor(contentRect.width), height: 240});
			}
		}
	});

	function drawAll(isForced) {
		for (const [element, {plot}] of drawn) {
			if (!element.isConnected) {
				plot.destroy();
				sizes.unobserve(element);
				drawn.delete(element);
			}
		}
		for (const element of document.querySelectorAll('[data-chart]')) {
			draw(element, isForced);
		}
	}

	drawAll(false);
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => drawAll(true));
	document.addEventListener('htmx:after:swap', () => drawAll(false));
})();
