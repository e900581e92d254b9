import {type Context, filters, Liquid} from 'liquidjs';
import {createFormats, type Place} from './formats.ts';
import {longestSource, renderMemory, renderTime} from './limits.ts';
import {safeUrl} from './safe-url.ts';

export type Engines = {
	/** Escapes what it puts into html, unless the last filter is `raw`. */
	readonly html: Liquid;
	/** For subjects and text parts: writes values as they are. */
	readonly plain: Liquid;
};

// A symbol, which no template can name: data can neither read nor replace the place of a render.
const placeKey = Symbol('place');

// They would read other templates or files; there are none.
const refusedTags = ['include', 'render', 'layout', 'block'];
const dateFilters = ['date', 'date_to_xmlschema', 'date_to_rfc822', 'date_to_string', 'date_to_long_string'] as const;

/** The Liquid language of templates (decisions.md, Templates). */
export function createEngines(): Engines {
	const formats = createFormats();
	return {html: engine({outputEscape: 'escape'}), plain: engine({})};

	function engine(escaping: {outputEscape?: 'escape'}): Liquid {
		const liquid = new Liquid({
			...escaping,
			templates: {},
			ownPropertyOnly: true,
			strictFilters: true,
			dynamicPartials: false,
			timezoneOffset: 'UTC',
			locale: 'en',
			parseLimit: longestSource,
			renderLimit: renderTime,
			memoryLimit: renderMemory,
		});
		for (const tag of refusedTags) {
			delete liquid.tags[tag];
		}

		liquid.registerFilter('format_currency', function (value: unknown, code: unknown) {
			return formats.currency(placeOf(this.context), value, code) ?? value;
		});
		liquid.registerFilter('format_date', function (value: unknown, style: unknown = 'medium') {
			return formats.date(placeOf(this.context), value, style, undefined) ?? value;
		});
		liquid.registerFilter(
			'format_datetime',
			function (value: unknown, dateStyle: unknown = 'medium', timeStyle: unknown = 'short') {
				return formats.date(placeOf(this.context), value, dateStyle, timeStyle) ?? value;
			},
		);
		liquid.registerFilter('safe_url', safeUrl);
		for (const name of dateFilters) {
			// Liquid's own date filters take zone and language from the engine's options: give them those of the render.
			liquid.registerFilter(name, function (value: unknown, ...args: unknown[]) {
				const {locale, timezone} = placeOf(this.context);
				const opts = {...this.context.opts, locale, timezoneOffset: timezone};
				const filter = filters[name] as (this: unknown, value: unknown, ...args: unknown[]) => unknown;
				return filter.call({...this, context: Object.create(this.context, {opts: {value: opts}})}, value, ...args);
			});
		}
		return liquid;
	}
}

/** The globals that tell a render's filters where its reader is. */
export function placeGlobals(place: Place): object {
	return {[placeKey]: place};
}

function placeOf(context: Context): Place {
	const place = (context.globals as {readonly [placeKey]?: Place})[placeKey];
	return place ?? {locale: 'en', timezone: 'UTC'};
}
