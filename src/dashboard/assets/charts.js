// Draws the charts of a page from what stands in their elements. The figures are in the tables beside them, too.
(() => {
	const drawn = new Map();
	const dashes = {dashed: [6, 4], dotted: [2, 3]};
	const months = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

	const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

	function at(seconds, daily, whole) {
		const date = new Date(seconds * 1000);
		const day = `${date.getUTCDate()} ${months[date.getUTCMonth()]}`;
		const hour = `${String(date.getUTCHours()).padStart(2, '0')}:00`;
		if (daily) {
			return day;
		}
		return whole ? `${day} ${hour}` : hour === '00:00' ? day : hour;
	}

	function text(value, unit) {
		if (value === null || value === undefined) {
			return '–';
		}
		return unit === 'count'
			? value.toLocaleString('en')
			: `${Number((value * 100).toFixed(value < 0.01 ? 2 : 1))} %`;
	}

	/** Under the pointer; while there is none, the newest. */
	const pointed = (plot, value, series, index) => (index == null ? plot.data[series].at(-1) : value);

	function options({unit, daily, times, series}, width) {
		const axis = {
			stroke: colour('soft'),
			grid: {stroke: colour('line'), width: 1},
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
			// Half a step on both sides, so that the first and the last bar are whole.
			scales: {
				x: {range: (_, least, most) => [least - (daily ? day : hour) / 2, most + (daily ? day : hour) / 2]},
				y: {range: (_, _least, most) => [0, Math.max(most * 1.08, unit === 'count' ? 4 : 0)]},
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
					values: (_, splits) => splits.map(one => at(one, daily, false)),
				},
				{
					...axis,
					size: 56,
					space: 40,
					incrs:
						unit === 'count'
							? [0, 1, 2, 3, 4, 5, 6, 7].flatMap(p => [1, 2, 5].map(n => n * 10 ** p))
							: undefined,
					values: (_, splits) => splits.map(one => text(one, unit)),
				},
			],
			series: [
				{label: 'UTC', value: (...of) => at(pointed(...of), daily, true)},
				...series.map(one => ({
					label: one.label,
					stroke: colour(one.tone),
					fill: one.look === 'bars' ? colour(`${one.tone}-soft`) : undefined,
					paths: one.look === 'bars' ? uPlot.paths.bars({size: [0.8, 40]}) : undefined,
					width: one.look === 'bars' ? 1 : 2,
					dash: dashes[one.look],
					points: {show: !one.isLimit && one.look !== 'bars' && times.length < 40, size: 5},
					value: (...of) => text(pointed(...of), unit),
				})),
			],
		};
	}

	/** What is drawn already stays while the figures are the same, unless the colours changed. */
	function draw(element, anew) {
		const known = drawn.get(element);
		const {chart} = element.dataset;
		element.hidden = false;
		if (known?.chart === chart && !anew) {
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

	function drawAll(anew) {
		for (const [element, {plot}] of drawn) {
			if (!element.isConnected) {
				plot.destroy();
				sizes.unobserve(element);
				drawn.delete(element);
			}
		}
		for (const element of document.querySelectorAll('[data-chart]')) {
			draw(element, anew);
		}
	}

	drawAll(false);
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => drawAll(true));
	document.addEventListener('htmx:after:swap', () => drawAll(false));
})();
