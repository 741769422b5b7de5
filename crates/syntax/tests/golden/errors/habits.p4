// What other languages have.
control C(inout H h) {
    apply {
        if (h.x = 3) { h.x = 1; }
        if (h.x == 1 and h.y == 2) { h.x = 1; }
        if (h.x == 1 or h.y == 2) { h.x = 1; }
        if (not h.b) { h.x = 1; }
        if (h.x == 1) { h.x = 2; } elseif (h.x == 2) { h.x = 3; } elif (h.x == 3) h.x = 4; else h.x = 5;
        while (h.x < 3) { h.x = h.x + 1; }
        t.apply;
        if (h.x == 1) h.x = 2; h.y = 3; else h.x = 3;
        h.x = 4;
    }
}
