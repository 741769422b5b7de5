@pure
@name("x")
@deep(a (b, "c" @ 3) { [ ] } >> &&&)
@structured[1, "two", 3 + 4,]
@pairs[a = 1, key = "v"]
@none[]
@table @if(else)
@empty()
const bit<8> x = 1;

#pragma attached to "the next" declaration (
@pragma also 1 2 // not this
@mixed
const bit<8> y = 2;
@pragma text "two
lines"
const bit<8> z = 3;

header H {
    @a bit<8> f;
#pragma field
    bit<8> g;
}
const bit<8> w = 1 +
#pragma ignored here
    2;
